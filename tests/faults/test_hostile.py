"""Hostile requests: no 5xx, no hang, no crash, no growth, and on the log exactly what was signed. The controls lack one of these each."""

from __future__ import annotations

import asyncio
from itertools import repeat
from pathlib import Path

import pytest

from infra.running.embedded import EmbeddedServer
from tests.faults.hostile.attacks import Attack, wire
from tests.faults.hostile.onslaught import attack_all, onslaught
from tests.faults.hostile.sources import targets_in, write_home
from tests.faults.receiver_process import receiver_process

SMALL, FULL = 500, 12_000
OF_A_CONTROL = 250


def prefix_of(home: Path) -> str:
    return f"{home.name}:".lower()


@pytest.mark.fault("HOSTILE")
def test_nothing_hostile_breaks_a_receiver(log_server: EmbeddedServer, tmp_path: Path, pytestconfig: pytest.Config) -> None:
    requests = FULL if pytestconfig.getoption("--full-size") else SMALL
    seed = pytestconfig.getoption("--seed")

    verdict = onslaught("ingest", home=tmp_path, log_url=log_server.url, prefix=prefix_of(tmp_path), requests=requests, seed=seed)

    assert verdict.examples == {}
    assert verdict.requests == requests
    # It did get through to the log, and was refused for every reason there is.
    assert verdict.stored > requests / 10
    assert {202, 400, 401, 404, 405, 413, 415, 431} <= set(verdict.statuses)


@pytest.mark.control("HOSTILE")
@pytest.mark.parametrize(
    ("module", "fault"),
    [
        ("receiver_believes_everybody", "accepted though it was not signed"),
        ("receiver_blames_itself", "a 5xx"),
        ("receiver_tidies_bodies", "stored otherwise than it was sent"),
    ],
)
def test_a_receiver_without_a_protection_is_found_out(log_server: EmbeddedServer, tmp_path: Path, module: str, fault: str) -> None:
    broken = f"tests.faults.broken.{module}"

    verdict = onslaught(broken, home=tmp_path, log_url=log_server.url, prefix=prefix_of(tmp_path), requests=OF_A_CONTROL, seed=1)

    assert fault in verdict.faults


@pytest.mark.parametrize(
    ("module", "is_faithful"),
    [
        pytest.param("ingest", True, id="real", marks=pytest.mark.fault("HOSTILE")),
        pytest.param("tests.faults.broken.receiver_keeps_what_was_reset", False, id="control", marks=pytest.mark.control("HOSTILE")),
    ],
)
def test_connections_that_are_reset_leave_nothing_in_memory(
    log_server: EmbeddedServer, tmp_path: Path, module: str, is_faithful: bool
) -> None:
    target = targets_in(write_home(tmp_path, prefix=prefix_of(tmp_path)))[0]
    refused = Attack("large head", wire(target.signed(), extra=(b"X-Long: " + b"x" * 50_000,)))
    with receiver_process(module, home=tmp_path, log_url=log_server.url, settings={}) as running:
        asyncio.run(attack_all(running, attacks=repeat(refused, 100)))
        warm_kb = running.memory_kb

        asyncio.run(attack_all(running, attacks=repeat(refused, 500)))

        grown_kb = running.memory_kb - warm_kb
    # 500 heads of 50 KB are 25 MB.
    assert (grown_kb < 8_000) is is_faithful
