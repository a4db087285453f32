"""A log that makes room by deleting what it was given is given nothing. The control's receiver does not ask."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from infra.running.embedded import EmbeddedServer
from infra.running.initialise import initialise
from infra.settings import LogSettings
from tests.faults.outage import outage
from tests.infra.running.processes import run_module, until
from tests.infra.streams.raw import open_raw
from tests.ports import free_port

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


@pytest.mark.control("B9")
@pytest.mark.parametrize("evicting", ["allkeys-lru"], indirect=True)
def test_without_a_look_at_it_a_full_memory_deletes_what_was_accepted(evicting: EmbeddedServer, tmp_path: Path) -> None:
    with outage(BROKEN, folder=tmp_path, server=evicting) as at:
        at.send(*(f"d{number}" for number in range(20)))
        assert len(at.accepted) == 20

        operator = open_raw(LogSettings(url=evicting.url), home=at.home)
        operator.config_set("maxmemory", "1mb")
        until(lambda: len(at.stored()) < 20, what="events are gone")
        operator.close()
