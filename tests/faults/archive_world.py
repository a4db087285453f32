"""Owns a log, a table and runs of the archive over them in this process, one of which may die at any step, and what must hold then."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Protocol

import pytest
from pyspark.sql import SparkSession

from analytics.archive import Archive
from analytics.caps import Failures
from analytics.commits import Commit, CommittedTable
from analytics.settings import ArchiveSettings, table_location
from analytics.tables import EVENTS
from infra.clock import Clock
from infra.settings import LogSettings, TelemetrySettings
from infra.streams.connection import open_blocking
from infra.streams.keys import Keys
from infra.streams.ranges import ArchiveLog
from infra.streams.stream import EventStream
from infra.telemetry import Telemetry
from schemas.event import StreamEvent
from tests.events import an_event
from tests.faults.checker import Accepted, faults, rows_of

STEPS = (
    "archive.before_plan", "archive.planned", "archive.before_commit", "archive.before_read_back", "archive.before_sync",
    "archive.before_move", "archive.between_moves", "archive.before_trim", "archive.after_trim",
)  # fmt: skip
"""Those that this process reaches; readers and writers are others."""
REACHING = ("analytics.archive.reach", "analytics.synced.reach", "infra.streams.ranges.reach")


class Died(Exception):
    """As far as what comes after is concerned, the process is dead."""


@contextmanager
def at_step(step: str, act: Callable[[], object]) -> Iterator[None]:
    """Whoever reaches the step inside does this first, once."""
    left = [act]

    def reach(name: str) -> None:
        if name == step and left:
            left.pop()()

    with pytest.MonkeyPatch.context() as patching:
        for place in REACHING:
            patching.setattr(place, reach)
        yield


def die() -> None:
    raise Died


class Addressed(Protocol):
    """What has a log's address: a server, or settings."""

    @property
    def url(self) -> str: ...


@dataclass
class ArchiveWorld:
    """One home, whose archive has as many runs as it takes."""

    spark: SparkSession
    server: Addressed
    home: Path
    shards: int = 1
    accepted: list[Accepted] = field(default_factory=list)
    settings: ArchiveSettings = field(default_factory=ArchiveSettings)
    clock: Clock = field(default_factory=Clock)
    options: dict[str, Any] = field(default_factory=dict)
    """Further ones for each run."""

    def __post_init__(self) -> None:
        self.home.mkdir(parents=True, exist_ok=True)
        self._telemetry = Telemetry.start("archive", TelemetrySettings(log_level="error"), home=self.home)
        self._logs: list[ArchiveLog] = []

    @property
    def log(self) -> LogSettings:
        return LogSettings(url=self.server.url, shards=self.shards, timeout_ms=2000)

    @property
    def keys(self) -> Keys:
        return Keys(self.log.prefix, self.shards)

    @property
    def table(self) -> Path:
        return Path(table_location(self.settings, home=self.home, table=EVENTS.name))

    def append(self, count: int, **changes: Any) -> None:
        self.append_these(*(an_event(payload=b"body %d" % number, **changes) for number in range(count)))

    def append_these(self, *events: StreamEvent) -> None:
        async def append_all() -> None:
            stream = EventStream.open(self.log, home=self.home)
            for receipt, event in zip(await asyncio.gather(*(stream.append(event) for event in events)), events, strict=True):
                self.accepted.append(Accepted(receipt.event_id, event.delivery_id, event.body_sha256))
            await stream.close()

        asyncio.run(append_all())

    def open(self) -> Archive:
        """Another run, as after a restart."""
        log = ArchiveLog.open(self.log, home=self.home)
        self._logs.append(log)
        is_past = partial(log.is_past, streams=EVENTS.streams)
        table = CommittedTable(self.spark, table=EVENTS, location=str(self.table), is_past=is_past)
        failures = Failures.remembered(home=self.home)
        return Archive(self.spark, log, table, self.settings, self.log, self.home, self.clock, self._telemetry, failures, **self.options)

    def drain(self, archive: Archive | None = None, *, last: Commit | None = None) -> Commit:
        """Takes in all that there is; returns what it has come to."""
        archive = archive or self.open()
        last = last or archive.start()
        for _ in range(20):
            committed = archive.run_batch(last)
            if committed is last:
                return last
            last = committed
        raise AssertionError("the archive does not come to rest")

    def die_at(self, step: str) -> None:
        """A run that dies there in a batch: its start moves the group too, and would die with nothing archived."""
        archive = self.open()
        last = archive.start()
        with at_step(step, die), pytest.raises(Died):
            self.drain(archive, last=last)

    def call(self, *command: Any) -> Any:
        with open_blocking(self.log, home=self.home) as client:
            return client.execute_command(*command)

    def keep_entries(self) -> None:
        """A group that lags, so that what is archived stays on the log."""
        for shard in range(self.shards):
            self.call("XGROUP", "CREATE", self.keys.events(shard, "default"), "slow", "0", "MKSTREAM")

    def faults(self) -> list[str]:
        """What is lost, doubled, changed or invented; empty when nothing is."""
        return faults(self.accepted, rows=rows_of(self.home))

    def close(self) -> None:
        for log in self._logs:
            log.close()
        self._telemetry.shutdown()
