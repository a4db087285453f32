"""A 202 is only sent for what is on the synced log or in the synced spool. The control answers first, and what it accepted is gone."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from infra.running.embedded import EmbeddedServer
from infra.running.initialise import initialise
from infra.settings import LogSettings
from infra.streams.keys import Keys
from tests.faults.receiver_process import post, receiver
from tests.infra.streams.raw import open_raw
from tests.ingest.spooling import spooled_events
from tests.ports import free_port

REAL, BROKEN = "ingest", "tests.faults.broken.receiver_answers_first"


@pytest.mark.parametrize(
    ("module", "is_faithful"),
    [
        pytest.param(REAL, True, id="real", marks=pytest.mark.fault("A3", "B1")),
        pytest.param(BROKEN, False, id="control", marks=pytest.mark.control("A3", "B1")),
    ],
)
def test_what_a_hanging_and_then_killed_log_never_confirmed_is_kept_by_the_receiver(tmp_path: Path, module: str, is_faithful: bool) -> None:
    home, server = tmp_path / "home", EmbeddedServer(tmp_path / "log", free_port(), password="a-test-password")
    initialise(home)
    server.start()
    with receiver(module, home=home, log_url=server.url) as hook:
        assert post(hook, home=home, delivery="before").status_code == 202
        os.kill(server.pid, signal.SIGSTOP)

        answer = post(hook, home=home, delivery="while-it-hangs")

    server.kill()
    server.start()
    try:
        kept = {event.id for event in spooled_events(home)} | ids_on(LogSettings(url=server.url), home=home)
        assert answer.status_code == 202
        assert (answer.json()["event_id"] in kept) is is_faithful
        assert answer.json().get("spooled", False) is is_faithful
    finally:
        server.stop()


def ids_on(log: LogSettings, *, home: Path) -> set[str]:
    client, keys = open_raw(log, home=home), Keys(log.prefix, log.shards)
    streams = [stream for shard in keys.all_shards() for stream in keys.event_streams(shard)]
    found = {fields[b"id"].decode() for stream in streams for _, fields in client.xrange(stream)}
    client.close()
    return found
