"""An archive that is killed in a refresh of a gold table counts everything once. The control notes apart how far it has come."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from analytics.gold import RECIPES, Gold
from analytics.gold_commits import GoldChain
from analytics.settings import ArchiveSettings, table_location
from infra.clock import Clock
from infra.running.embedded import EmbeddedServer
from infra.settings import LogSettings, TelemetrySettings
from infra.streams.ranges import ArchiveLog
from infra.telemetry import Telemetry
from tests.faults.archive_process import REAL, ArchiveProcess, append_many
from tests.faults.broken import archive_notes_gold_apart
from tests.ports import free_port

BROKEN = "tests.faults.broken.archive_notes_gold_apart"
STEPS = ("before_commit", "before_read_back", "before_sync", "after_sync")
EVENTS = 50

pytestmark = pytest.mark.skipif("not config.getoption('--full-size')", reason="the same without a process: tests/analytics/test_gold.py")


@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    ("module", "step", "counted"),
    [
        *(pytest.param(REAL, step, EVENTS, id=step, marks=pytest.mark.fault("E20")) for step in STEPS),
        pytest.param(BROKEN, "before_sync", 2 * EVENTS, id="control", marks=pytest.mark.control("E20")),
    ],
)
def test_a_kill_in_a_refresh_counts_nothing_twice_unless_it_is_noted_apart(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, module: str, step: str, counted: int
) -> None:
    server = EmbeddedServer(tmp_path / "log", free_port(), password="a-test-password")
    server.start()
    try:
        archive = ArchiveProcess(tmp_path / "home", log_url=server.url)
        asyncio.run(append_many(LogSettings(url=server.url), home=archive.home, count=EVENTS))

        archive.run_until_killed(module, failpoint=f"gold.{step}=kill")
        if module == BROKEN:
            monkeypatch.setattr(GoldChain, "replace_rows", archive_notes_gold_apart.replace_then_note)
            monkeypatch.setattr(GoldChain, "newest_commit", archive_notes_gold_apart.noted)
        refresh(spark, home=archive.home, log=archive.log)

        table = table_location(ArchiveSettings(), home=archive.home, table="traffic_hourly")
        assert spark.read.format("delta").load(table).selectExpr("sum(events)").collect()[0][0] == counted
    finally:
        server.stop()


def refresh(spark: SparkSession, *, home: Path, log: LogSettings) -> None:
    """What the next archive does."""
    telemetry, reader = Telemetry.start("archive", TelemetrySettings(), home=home), ArchiveLog.open(log, home=home)
    try:
        Gold(spark, reader, ArchiveSettings(), home, Clock(), telemetry).refresh(RECIPES[0])
    finally:
        reader.close()
        telemetry.shutdown()
