"""Owns the fixtures of tests that look into a log: its keys, a stream to append to, a connection, the archive's view and a raw client.

A conftest that wants them imports them; whichever server its `log_server` and `own_server` start is the one they use.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest

from infra.running.embedded import EmbeddedServer
from infra.settings import LogSettings
from infra.streams.connection import open_pipeline
from infra.streams.keys import Keys
from infra.streams.pipelining import Pipeline
from infra.streams.ranges import ArchiveLog
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
def archive_log(log: LogSettings, home: Path) -> Iterator[ArchiveLog]:
    opened = ArchiveLog.open(log, home=home)
    yield opened
    opened.close()


@pytest.fixture
def client(log: LogSettings, home: Path) -> Iterator[Any]:
    opened = open_raw(log, home=home)
    yield opened
    opened.close()


@pytest.fixture
def own_log(own_server: EmbeddedServer) -> LogSettings:
    """The log of a server that the test may kill, stop or fill."""
    return LogSettings(url=own_server.url, timeout_ms=1000, shards=1)


@pytest.fixture
async def own_stream(own_log: LogSettings, home: Path) -> AsyncIterator[EventStream]:
    opened = EventStream.open(own_log, home=home)
    yield opened
    await opened.close()


@pytest.fixture
async def own_pipeline(own_log: LogSettings, home: Path) -> AsyncIterator[Pipeline]:
    opened = open_pipeline(own_log, home=home)
    yield opened
    await opened.close()


@pytest.fixture
def own_archive_log(own_log: LogSettings, home: Path) -> Iterator[ArchiveLog]:
    opened = ArchiveLog.open(own_log, home=home)
    yield opened
    opened.close()


@pytest.fixture
def own_client(own_log: LogSettings, home: Path) -> Iterator[Any]:
    opened = open_raw(own_log, home=home)
    yield opened
    opened.close()
