"""Fixtures for the archive: a table and an archive for each test."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from analytics.archive import Archive
from analytics.caps import Failures
from analytics.chains import Chains
from analytics.commits import CommittedTable
from analytics.gold import Gold
from analytics.settings import ArchiveSettings, table_location
from analytics.tables import EVENTS, Table
from infra.clock import Clock
from infra.running.embedded import EmbeddedServer
from infra.settings import LogSettings, TelemetrySettings
from infra.streams.ranges import ArchiveLog
from infra.streams.stream import EventStream
from infra.telemetry import Telemetry
from schemas.event import StreamEvent
from schemas.receipt import Receipt
from tests.ports import free_port


@pytest.fixture
def location(home: Path) -> str:
    return table_location(ArchiveSettings(), home=home, table=EVENTS.name)


@pytest.fixture
def events(spark: SparkSession, location: str) -> CommittedTable:
    return CommittedTable(spark, table=EVENTS, location=location)


@pytest.fixture
def telemetry(home: Path) -> Iterator[Telemetry]:
    told = Telemetry.start("archive", TelemetrySettings(), home=home)
    yield told
    told.shutdown()


OpenArchive = Callable[..., Archive]


@pytest.fixture
def open_archive(spark: SparkSession, log: LogSettings, home: Path, telemetry: Telemetry) -> Iterator[OpenArchive]:
    """Each call is another run of the archive over the same table, as after a restart."""
    opened: list[ArchiveLog] = []

    def open_one(
        at: LogSettings = log,
        settings: ArchiveSettings = ArchiveSettings(),  # noqa: B008 - frozen
        table: Table = EVENTS,
    ) -> Archive:
        opened.append(ArchiveLog.open(at, home=home))
        location = table_location(settings, home=home, table=table.name)
        committed = CommittedTable(spark, table=table, location=location, is_past=partial(opened[-1].is_past, streams=table.streams))
        return Archive(spark, opened[-1], committed, settings, at, home, Clock(), telemetry, Failures.remembered(home=home))

    yield open_one
    for one in opened:
        one.close()


OpenChains = Callable[..., Chains]


@pytest.fixture
def open_chains(open_archive: OpenArchive, log: LogSettings, home: Path, telemetry: Telemetry) -> Iterator[OpenChains]:
    """Each call is another run of the archive over all tables, with everything archived that there is."""
    opened: list[ArchiveLog] = []

    def open_all(at: LogSettings = log, settings: ArchiveSettings = ArchiveSettings()) -> Chains:  # noqa: B008 - frozen
        opened.append(ArchiveLog.open(at, home=home))

        def opens(table: Table) -> Archive:
            return open_archive(at, settings, table)

        chains = Chains(opened[-1], opens=opens, interval_ms=60_000, telemetry=telemetry)
        chains.begin()
        return chains

    yield open_all
    for one in opened:
        one.close()


@pytest.fixture
def own_server(tmp_path: Path) -> Iterator[EmbeddedServer]:
    """A log server that a test may kill."""
    server = EmbeddedServer(tmp_path / "own-log", free_port(), password="a-test-password")
    server.start()
    yield server
    server.stop()


@pytest.fixture
def synced(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The paths that were synced, in order; each really is."""
    paths: list[str] = []
    really = os.fsync

    def sync(descriptor: int) -> None:
        paths.append(os.readlink(f"/proc/self/fd/{descriptor}"))
        really(descriptor)

    monkeypatch.setattr(os, "fsync", sync)
    return paths


def append(log: LogSettings, home: Path, *events: StreamEvent) -> list[Receipt]:
    """Appends the events as a receiver does."""

    async def append_all() -> list[Receipt]:
        stream = EventStream.open(log, home=home)
        try:
            return [await stream.append(event) for event in events]
        finally:
            await stream.close()

    return asyncio.run(append_all())


OpenGold = Callable[[], Gold]


@pytest.fixture
def open_gold(spark: SparkSession, log: LogSettings, home: Path, telemetry: Telemetry) -> Iterator[OpenGold]:
    """Each call is another run of the archive over the same tables, as after a restart."""
    reader = ArchiveLog.open(log, home=home)
    yield lambda: Gold(spark, reader, ArchiveSettings(), home, Clock(), telemetry)
    reader.close()
