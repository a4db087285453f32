"""Fixtures of the receiver's tests: one receiver per module, on the shared log server with a prefix of its own."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from infra.running.embedded import EmbeddedServer
from infra.settings import LogSettings, TelemetrySettings
from infra.streams.connection import open_blocking
from infra.streams.entries import as_fields, decode
from infra.streams.keys import Keys
from infra.telemetry import Telemetry
from schemas.event import StreamEvent
from tests.ingest.receivers import DEADLINE_S, RunningReceiver, fresh_prefix, post, start_receiver, wait_until, write_home


@pytest.fixture
def telemetry(home: Path) -> Iterator[Telemetry]:
    started = Telemetry.start("ingest", TelemetrySettings(), home=home)
    yield started
    started.shutdown()


@pytest.fixture(scope="module")
def receiver_log(log_server: EmbeddedServer) -> LogSettings:
    return LogSettings(url=log_server.url, prefix=fresh_prefix())


@pytest.fixture(scope="module")
def receiver_home(tmp_path_factory: pytest.TempPathFactory, receiver_log: LogSettings) -> Path:
    ingest = {"port": 0, "ops_port": 0, "body_timeout_ms": 500, "head_timeout_ms": 500}
    return write_home(tmp_path_factory.mktemp("receiver"), log=receiver_log, ingest=ingest)


@pytest.fixture(scope="module")
def receiver(receiver_home: Path) -> Iterator[RunningReceiver]:
    running = start_receiver(receiver_home)
    wait_until(lambda: post(running.port, body=b"", headers={}, path="/readyz", method="GET").status == 200, what="the receiver is ready")
    yield running
    running.stop()
    running.process.wait(timeout=DEADLINE_S)


@pytest.fixture
def stored(receiver_log: LogSettings, receiver_home: Path) -> Callable[[], dict[str, StreamEvent]]:
    """All events on the receiver's log, by id."""
    keys = Keys(receiver_log.prefix, receiver_log.shards)

    def read() -> dict[str, StreamEvent]:
        client = open_blocking(receiver_log, home=receiver_home)
        try:
            found = [
                decode(fields) for shard in keys.all_shards() for name in keys.event_streams(shard) for fields in _entries(client, name)
            ]
        finally:
            client.close()
        return {event.id: event for event in found}

    return read


def _entries(client: object, stream: str) -> list[dict[bytes, bytes]]:
    reply = client.execute_command("XRANGE", stream, "-", "+", NEVER_DECODE=True)  # type: ignore[attr-defined]
    return [fields if isinstance(fields, dict) else as_fields(fields) for _, fields in reply]
