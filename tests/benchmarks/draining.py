"""Owns one warm Spark that drains a backlog into a table, or writes the same entries from Parquet to such a table."""

from __future__ import annotations

import itertools
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from analytics import plan
from analytics.archive import Archive
from analytics.caps import Failures
from analytics.commits import CommittedTable
from analytics.feeds import FEEDS
from analytics.opening import open_table
from analytics.session import archive_session, stop_session
from analytics.settings import ArchiveSettings
from analytics.source import read_ranges
from analytics.tables import EVENTS
from analytics.transforms import to_events
from infra.clock import Clock
from infra.settings import LogSettings, TelemetrySettings
from infra.streams.ranges import ArchiveLog
from infra.telemetry import Telemetry
from tests.benchmarks.rates import CannotMeasure, Observation

Transform = Callable[..., DataFrame]
Opens = Callable[..., SparkSession]


class Draining:
    """A Spark as the archive has it, or as `opens` makes it; every table is a fresh one."""

    def __init__(self, stack: ExitStack, *, folder: Path, opens: Opens = archive_session) -> None:
        self._folder = folder
        self._numbers = itertools.count(1)
        self.spark: SparkSession = opens(ArchiveSettings(), home=folder)
        stack.callback(stop_session, self.spark)
        self._telemetry = Telemetry.start("archive", TelemetrySettings(log_level="warning"), home=folder)
        stack.callback(self._telemetry.shutdown)

    def drain(self, log: LogSettings, *, entries: int, transform: Transform = to_events) -> list[Observation]:
        """Archives the whole log into a fresh table, as `hooklake archive` does; how far it was after each batch. Raises CannotMeasure."""
        with _transforming(transform), closing(ArchiveLog.open(log, home=self._folder)) as reader:
            seen = self._drain(reader, log=log)
        if seen[-1].done != entries:
            raise CannotMeasure(f"the archive has made {seen[-1].done} rows of {entries} entries")
        return seen

    def _drain(self, reader: ArchiveLog, *, log: LogSettings) -> list[Observation]:
        table = CommittedTable(self.spark, table=EVENTS, location=str(self._fresh()))
        failures = Failures.remembered(home=self._folder)
        archive = Archive(self.spark, reader, table, ArchiveSettings(), log, self._folder, Clock(), self._telemetry, failures)
        last = archive.start()
        seen = [Observation(time.monotonic(), 0)]
        while (newer := archive.run_batch(last)) is not last:
            last = newer
            if last.cut:  # as the archive does
                table.recall_ahead()
            seen.append(Observation(time.monotonic(), last.totals.rows))
        return seen

    def keep_raw(self, log: LogSettings) -> Path:
        """The log's entries as a Parquet directory, before anything is derived from them."""
        to = self._fresh()
        with closing(ArchiveLog.open(log, home=self._folder)) as reader:
            ends = reader.look().of(EVENTS.streams).ends
            groups = [[one] for one in plan.plan(ends, archived={})]
        read_ranges(self.spark, table=EVENTS.name, groups=groups, log=log, home=self._folder).write.parquet(str(to))
        return to

    def write(self, raw: Path, *, entries: int, transform: Transform = to_events) -> list[Observation]:
        """The same rows, by the same transformation, from Parquet to a fresh table like that of the archive."""
        to = str(self._fresh())
        open_table(self.spark, table=EVENTS, location=to)
        begun = time.monotonic()
        rows = transform(self.spark.read.parquet(str(raw)), batch=1, archived_at=Clock().now())
        rows.write.format("delta").mode("append").save(to)
        return [Observation(begun, 0), Observation(time.monotonic(), entries)]

    def remove_tables(self, *, besides: Path | None = None) -> None:
        for path in self._folder.glob("table-*"):
            if path != besides:
                shutil.rmtree(path)

    def forget_peak(self) -> None:
        for pool in self._heap_pools():
            pool.resetPeakUsage()

    def peak_heap_bytes(self) -> int:
        """The most that each part of the driver's heap has held since; all together it was never more."""
        return sum(pool.getPeakUsage().getUsed() for pool in self._heap_pools())

    def _heap_pools(self) -> list[Any]:
        jvm: Any = self.spark._jvm
        pools = jvm.java.lang.management.ManagementFactory.getMemoryPoolMXBeans()
        return [pool for pool in pools if pool.getType().toString() == "Heap memory"]

    def _fresh(self) -> Path:
        return self._folder / f"table-{next(self._numbers)}"


def without_variant(raw: DataFrame, *, batch: int, archived_at: datetime) -> DataFrame:
    """The rows of `events` with no payload: what parsing and storing a VARIANT costs is left out."""
    nothing = {"payload": F.lit(None).cast("variant"), "parse_error": F.lit(None).cast("string")}
    return to_events(raw, batch=batch, archived_at=archived_at).withColumns(nothing)


@contextmanager
def _transforming(transform: Transform) -> Iterator[None]:
    """The archive makes rows by `transform` for a while; nothing in it knows that this can be changed."""
    usual = FEEDS[EVENTS.name]
    FEEDS[EVENTS.name] = replace(usual, to_rows=transform)
    try:
        yield
    finally:
        FEEDS[EVENTS.name] = usual
