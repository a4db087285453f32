"""Fixtures of the log's tests: a stream, a connection and a raw client of one log."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest

from infra.running.embedded import EmbeddedServer, free_port
from infra.settings import LogSettings
from infra.streams.connection import open_pipeline
from infra.streams.keys import Keys
from infra.streams.pipelining import Pipeline
from infra.streams.stream import EventStream
from tests.infra.streams.raw import open_raw


@pytest.fixture
def keys(log: LogSettings) -> Keys:
    return Keys(log.prefix, log.shards)


@pytest.fixture
async def stream(log: LogSettings, home: Path) -> AsyncIterator[EventStream]:
    opened = EventStream.open(log, home=home)
    yield opened
    await opened.close()


@pytest.fixture
async def pipeline(log: LogSettings, home: Path) -> AsyncIterator[Pipeline]:
    opened = open_pipeline(log, home=home, wait_ms=1000)
    yield opened
    await opened.close()


@pytest.fixture
def client(log: LogSettings, home: Path) -> Iterator[Any]:
    opened = open_raw(log, home=home)
    yield opened
    opened.close()


@pytest.fixture
def own_server(tmp_path: Path) -> Iterator[EmbeddedServer]:
    """A server that the test may kill, stop or fill."""
    server = EmbeddedServer(tmp_path / "own", free_port(), password="a-test-password")
    server.start()
    yield server
    server.kill()


@pytest.fixture
def own_log(own_server: EmbeddedServer) -> LogSettings:
    return LogSettings(url=own_server.url, timeout_ms=1000, shards=1)
