"""Owns measuring a replay: how fast archived events reach a group's streams when nothing holds them back."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path

from pyspark.sql import SparkSession

from analytics.counting import count
from analytics.opening import open_table
from analytics.replay import with_a_place_for_each
from analytics.replayer import Plan, Replayer
from analytics.selection import Selection
from analytics.session import quick_session
from analytics.settings import ArchiveSettings
from analytics.tables import EVENTS
from analytics.transforms import to_events
from infra.clock import Clock
from infra.settings import LogSettings
from infra.streams import groups
from infra.streams.connection import open_pipeline
from infra.streams.keys import Keys
from infra.streams.replay import Limits
from infra.streams.replays import Replays
from tests.benchmarks.racing import a_server
from tests.benchmarks.rates import CannotMeasure

GROUP = "replayed"
NO_LIMITS = Limits(entries=10**9, size_bytes=10**12)


def a_replays_session(settings: ArchiveSettings, *, home: Path) -> SparkSession:
    """A Spark as `hooklake replay` starts it."""
    return quick_session(with_a_place_for_each(settings, shards=LogSettings().shards), home=home)


def keep_rows(spark: SparkSession, *, raw: Path, to: Path) -> Path:
    """The rows of these raw entries as a table like that of the archive."""
    open_table(spark, table=EVENTS, location=str(to))
    rows = to_events(spark.read.parquet(str(raw)), batch=1, archived_at=Clock().now())
    rows.write.format("delta").mode("append").save(str(to))
    return to


def replay_all(spark: SparkSession, *, table: Path, folder: Path) -> float:
    """Events per second from the table onto a fresh log: with reading, sorting and every fsync, without counting beforehand."""
    with a_server(folder, fsync="always") as server:
        return _replay_all(spark, table=table, log=LogSettings(url=server.url), home=folder)


def _replay_all(spark: SparkSession, *, table: Path, log: LogSettings, home: Path) -> float:
    asyncio.run(_declare(log, home=home))
    with closing(Replays.open(log, home=home)) as replays:
        replayer = Replayer(spark, str(table), log, home, replays, limits=NO_LIMITS)
        counted = count(replayer.rows(Selection()), shards=log.shards)
        plan = Plan(Selection(), started_at=datetime.now(UTC).isoformat()).with_counted(counted)
        begun = replays.begin(GROUP, about=plan.to_json())
        seconds = _timed(lambda: replayer.run(begun))
        if (waiting := replays.waiting(GROUP)) != counted.events:
            raise CannotMeasure(f"{waiting} of {counted.events} events were replayed")
    return counted.events / seconds


def _timed(act: Callable[[], None]) -> float:
    begun = time.monotonic()
    act()
    return time.monotonic() - begun


async def _declare(log: LogSettings, *, home: Path) -> None:
    pipeline = open_pipeline(log, home=home)
    try:
        await groups.declare(pipeline, keys=Keys(log.prefix, log.shards), group=GROUP)
    finally:
        await pipeline.close()
