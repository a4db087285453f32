"""Hostile requests: no 5xx, no hang, no crash, memory within bounds, and on the log exactly what was signed. The controls lack one each."""

from __future__ import annotations

import asyncio
from itertools import repeat
from pathlib import Path
from random import Random

import pytest

from infra.running.embedded import EmbeddedServer
from ingest.schemes import SCHEMES
from tests.faults.hostile.attacks import Attack, wire
from tests.faults.hostile.drawing import proofs_of
from tests.faults.hostile.onslaught import attack_all, onslaught
from tests.faults.hostile.sources import targets_in, write_home
from tests.faults.hostile.verdict import Verdict, judge_memory
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
    # It did get through to the log, was answered handshakes, and was refused for every reason there is.
    assert verdict.stored > requests / 10
    assert {200, 202, 400, 401, 404, 405, 413, 415, 422, 431} <= set(verdict.statuses)


@pytest.mark.control("HOSTILE")
@pytest.mark.parametrize(
    ("module", "fault"),
    [
        ("receiver_believes_everybody", "accepted though it was not signed"),
        ("receiver_believes_any_key", "accepted though it was not signed"),
        ("receiver_blames_itself", "a 5xx"),
        ("receiver_tidies_bodies", "stored otherwise than it was sent"),
    ],
)
def test_a_receiver_without_a_protection_is_found_out(log_server: EmbeddedServer, tmp_path: Path, module: str, fault: str) -> None:
    broken = f"tests.faults.broken.{module}"

    verdict = onslaught(broken, home=tmp_path, log_url=log_server.url, prefix=prefix_of(tmp_path), requests=OF_A_CONTROL, seed=1)

    assert fault in verdict.faults


def test_every_scheme_is_attacked_and_every_way_to_spoil_its_signature_is_met(tmp_path: Path) -> None:
    targets = targets_in(write_home(tmp_path, prefix=prefix_of(tmp_path)))

    grid, rng = proofs_of(targets), Random(1)
    met = {kind(rng, target).kind for kind, target in grid}

    assert {target.source.scheme.name for target in targets} == set(SCHEMES)
    # Half of a run goes to them at most.
    assert len(grid) < FULL / 2
    assert met == {"genuine", "forged", "another body", "two signatures", "spoilt signature"}


def test_of_what_nobody_signed_a_change_is_no_forgery_and_of_the_rest_it_is(tmp_path: Path) -> None:
    targets = {target.source.name: target for target in targets_in(write_home(tmp_path, prefix=prefix_of(tmp_path)))}
    notification, event = targets["aws-sns"], targets["github"]
    sent = notification.signed(number=1).body

    assert notification.stands_for(sent.replace(b"SigningCertURL", b"SigningCert"), sent=sent)
    assert notification.stands_for(sent.replace(b"SigningCertURL", b"\xff"), sent=sent)
    assert notification.stands_for(sent.replace(b'"2"', b"9" * 5000), sent=sent)
    for signed in (b"Subject", b"Message", b"TopicArn", b"Signature"):
        assert not notification.stands_for(sent.replace(b'"%b"' % signed, b'"another"'), sent=sent)
    assert not event.stands_for(b"{} ", sent=b"{}")
    assert targets["gitlab-token"].stands_for(b"{} ", sent=b"{}")


@pytest.mark.parametrize(
    ("resident_kb", "warm_kb", "faults"),
    [
        ([146_484, 146_484], 290_000, set()),
        ([60_000, 146_485], 200_000, {"its memory is above 150 MB"}),
        ([60_000, 60_000], 60_000, {"its memory grows"}),
    ],
)
def test_of_several_receivers_each_has_its_bound_and_all_together_may_not_grow(
    resident_kb: list[int], warm_kb: int, faults: set[str]
) -> None:
    verdict = Verdict()

    judge_memory(verdict, resident_kb=resident_kb, warm_kb=warm_kb)

    assert set(verdict.faults) == faults


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
