"""Owns making a new Spark warm: made-up events go the whole way of a batch, into a table that is thrown away.

A JVM compiles what it has run often, and a Python process imports what it runs first, so the first batches of a new archive take
several times as long as later ones. No event should wait for that, nor for warming: where some wait already, the first batch is theirs.
"""

from __future__ import annotations

import shutil
import threading
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

from pyspark.sql import SparkSession

from analytics.commits import Commit, write_rows
from analytics.opening import open_table
from analytics.plan import Range
from analytics.session import archive_scratch
from analytics.settings import ArchiveSettings
from analytics.source import read_ranges
from analytics.synced import as_unavailable
from analytics.tables import EVENTS
from analytics.transforms import to_events
from infra.clock import Clock
from infra.settings import LogSettings, Settings
from infra.streams.overview import read_overview
from infra.telemetry import Telemetry
from schemas.errors import StreamUnavailable, TableUnavailable

ROUNDS = 2
AT_ONCE = 500


def begin_warming(
    settings: Settings, *, section: ArchiveSettings, spark: SparkSession, telemetry: Telemetry, stack: ExitStack
) -> Future[None]:
    """Makes Spark warm, beside whatever else a start has to do. When that fails there is a warning, and the first batches take longer."""
    is_over = threading.Event()

    def warm() -> None:
        try:
            warm_up(spark, log=settings.log, home=settings.home, scratch=archive_scratch(settings.home))
        except TableUnavailable as error:
            if not is_over.is_set():
                telemetry.log.warning("Spark could not be made warm, so the first events wait longer", reason=str(error))

    pool = ThreadPoolExecutor(1)
    # Who is told to end at once does not wait for it: it breaks off when Spark stops.
    stack.callback(pool.shutdown, wait=False)
    stack.callback(is_over.set)
    # A cluster cannot reach the scratch directory.
    is_wanted = section.warm_up and section.master.startswith("local") and not events_wait(settings)
    return pool.submit(warm if is_wanted else lambda: None)


def events_wait(settings: Settings) -> bool:
    """Whether there is something to archive, as far as the log can be asked."""
    try:
        return read_overview(settings.log, home=settings.home).above_archived > 0
    except StreamUnavailable:
        return False


def warm_up(spark: SparkSession, *, log: LogSettings, home: Path, scratch: Path) -> None:
    """Takes some seconds; raises TableUnavailable when the scratch directory cannot be written."""
    location = str(scratch / "warm")
    with as_unavailable(location, cannot="be written"):
        open_table(spark, table=EVENTS, location=location)
        # As many tasks as a batch has, each with nothing of the log.
        tasks: list[list[Range]] = [[] for _ in range(spark.sparkContext.defaultParallelism)]
        for batch in range(1, ROUNDS + 1):
            raw = read_ranges(spark, table=EVENTS.name, groups=tasks, log=log, home=home, samples=AT_ONCE)
            rows = to_events(raw, batch=batch, archived_at=Clock().now())
            write_rows(rows, location=location, commit=Commit("warm", EVENTS.name, batch, {}))
        shutil.rmtree(location)
