"""A log that makes room by deleting what it was given is given nothing. The control's receiver does not ask."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from infra.clock import Clock
from infra.running.embedded import EmbeddedServer
from infra.running.initialise import initialise
from infra.settings import LogSettings
from infra.spools import read_spools
from tests.faults.outage import Outage, outage
from tests.infra.running.processes import run_module, until
from tests.infra.streams.raw import open_raw
from tests.ports import free_port

WAITS_MS = 3000
REAL, BROKEN = "ingest", "tests.faults.broken.receiver_takes_any_log"


@pytest.fixture(params=["allkeys-lru", "allkeys-random", "volatile-ttl"])
def evicting(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[EmbeddedServer]:
    server = EmbeddedServer(tmp_path / "log", free_port(), password="a-test-password", options={"maxmemory-policy": request.param})
    server.start()
    yield server
    server.kill()


@pytest.mark.fault("B9")
def test_a_receiver_does_not_start_over_a_log_that_evicts(evicting: EmbeddedServer, tmp_path: Path) -> None:
    initialise(tmp_path / "home")

    ended = run_module(REAL, home=tmp_path / "home", LOG__URL=evicting.url)

    assert ended.returncode == 2
    assert "a full memory would delete accepted events; set it to noeviction" in ended.stderr


@pytest.mark.parametrize(
    ("module", "is_faithful"),
    [
        pytest.param(REAL, True, id="real", marks=pytest.mark.fault("B9")),
        pytest.param(BROKEN, False, id="control", marks=pytest.mark.control("B9")),
    ],
)
def test_a_log_that_is_made_to_evict_later_is_given_nothing_more(tmp_path: Path, module: str, is_faithful: bool) -> None:
    with outage(module, folder=tmp_path) as at, closing(open_raw(LogSettings(url=at.server.url), home=at.home)) as operator:
        operator.config_set("maxmemory-policy", "allkeys-lru")
        if is_faithful:
            # One that was merely slow is emptied out of the spool within moments.
            until(lambda: at.is_spooling() and waits_for(WAITS_MS, at=at), what="the receiver has found out")
        at.answers.clear()
        at.send(*(f"d{number}" for number in range(20)))
        assert len(at.accepted) == 20

        operator.config_set("maxmemory", "1mb")
        if not is_faithful:
            until(lambda: any(not at.stored()[delivery] for delivery in at.accepted), what="events are gone")
            return
        operator.config_set("maxmemory", "0")
        operator.config_set("maxmemory-policy", "noeviction")
        at.drained()
        assert all(at.stored()[delivery] == 1 for delivery in at.accepted)


def waits_for(waits_ms: int, *, at: Outage) -> bool:
    """Whether an event has been in the spool for so long."""
    now_ms = Clock().now_ms()
    return any(spool.oldest_ms is not None and now_ms - spool.oldest_ms > waits_ms for spool in read_spools(at.home))
