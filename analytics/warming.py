"""Owns making a new Spark warm: made-up events go the whole way of a batch, into a table that is thrown away.

A JVM compiles what it has run often, and a Python process imports what it runs first, so the first batches of a new archive take
several times as long as later ones. No event should wait for that.
"""

from __future__ import annotations

import shutil
from pathlib import Path

from pyspark.sql import SparkSession

from analytics.commits import Commit, write_rows
from analytics.opening import open_table
from analytics.plan import Range
from analytics.source import read_ranges
from analytics.synced import as_unavailable
from analytics.tables import EVENTS
from analytics.transforms import to_events
from infra.clock import Clock
from infra.settings import LogSettings

ROUNDS = 2
AT_ONCE = 500


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
