"""Gold tables are looked after like the others, and a refresh goes on exactly where it was, whatever is gone of the logs by then."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from analytics import tending, versions
from analytics.archive import following
from analytics.chains import Chains
from analytics.commits import commit_in
from analytics.delta_log import DeltaLog
from analytics.gold import Gold
from analytics.gold_commits import GoldChain
from analytics.session_settings import settings_of
from analytics.settings import ArchiveSettings
from analytics.shredding import NO_FLOOR
from tests.analytics.conftest import OpenChains, OpenGold
from tests.analytics.test_gold import DRIFT_RECIPE, TRAFFIC_RECIPE, archived, table
from tests.analytics.test_tending import upkeep


def take_in(spark: SparkSession, chains: Chains, *types: str) -> None:
    """A batch of events of these types, as the archive commits it."""
    assert chains.events.last is not None
    batch = following(chains.events.last).batch
    changes = [{"id": f"{batch}-{number}", "event_type": type_, "entry_id": f"{batch}-{number}"} for number, type_ in enumerate(types)]
    archived(chains.events.open().table, spark, *changes, batch=batch)
    chains.events.last = chains.events.open().table.newest_commit(run="run")


def counted_after_upkeep(
    spark: SparkSession, chains: Chains, gold: Gold, home: Path, monkeypatch: pytest.MonkeyPatch
) -> tuple[int, list[dict[str, Any]]]:
    """Four events are counted, of which one is then gone; everything old is removed; one more comes. Also what upkeep did to gold."""
    take_in(spark, chains, "github.push", "github.star", "github.star")
    gold.refresh(TRAFFIC_RECIPE)
    take_in(spark, chains, "github.push")
    with settings_of(spark, {"spark.sql.files.maxRecordsPerFile": "1"}):  # So that there is something to put together.
        gold.refresh(TRAFFIC_RECIPE)
    spark.sql(f"DELETE FROM delta.`{chains.events.open().table.location}` WHERE id LIKE '%-2'")
    monkeypatch.setattr(ArchiveSettings, "vacuum_after_hours", 0)
    monkeypatch.setattr(tending, "CHECKPOINT_AFTER", 1)
    with settings_of(spark, NO_FLOOR):
        reports = upkeep(chains)["tables"]
    take_in(spark, chains, "github.star")
    for _ in range(2):
        gold.refresh(TRAFFIC_RECIPE)
    return sum(row.events for row in table(spark, home, "traffic_hourly").collect()), reports


@pytest.mark.fault("E8")
def test_a_refresh_goes_on_where_it_was_after_upkeep_and_a_new_gold_table_begins_with_everything(
    spark: SparkSession, open_chains: OpenChains, open_gold: OpenGold, home: Path, location: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    counted, reports = counted_after_upkeep(spark, open_chains(), open_gold(), home, monkeypatch)

    assert counted == 5
    traffic = next(report for report in reports if report["table"] == "traffic_hourly")
    assert (traffic["files_before"], traffic["files_after"]) == (2, 1)
    assert min(traffic["removed_files"], traffic["removed_versions"]) >= 3
    # The first refresh of another gold table finds neither version 0 of `events` nor most batches in its log, and all rows.
    left = versions.read_history(Path(location)).made_ms
    assert min(left) > 0
    assert len([version for version in left if commit_in(DeltaLog(spark, location=location).entry(version))]) == 2
    open_gold().refresh(DRIFT_RECIPE)
    assert {row.event_type: row.events for row in table(spark, home, "schema_drift").where("path = '$'").collect()} == {
        "github.push": 2,
        "github.star": 2,
    }


@pytest.mark.control("E8")
def test_without_keeping_what_says_how_far_it_has_counted_a_refresh_forgets_what_is_gone(
    spark: SparkSession, open_chains: OpenChains, open_gold: OpenGold, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(GoldChain, "repeat", lambda *_: None)
    monkeypatch.setattr(GoldChain, "told_at", lambda _: 10**9)

    counted, _ = counted_after_upkeep(spark, open_chains(), open_gold(), home, monkeypatch)

    assert counted == 4
