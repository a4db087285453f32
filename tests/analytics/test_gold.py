from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from delta.tables import DeltaTable
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F

from analytics import gold_commits, synced
from analytics.commits import Commit, CommittedTable
from analytics.gold import RECIPES, in_partitions
from analytics.gold_commits import GoldChain
from analytics.gold_drift import FURTHER, drift_as_parts, merged_drift
from analytics.gold_processors import PROCESSORS, settled
from analytics.gold_tables import SCHEMA_DRIFT, TRAFFIC_HOURLY
from analytics.gold_traffic import TRAFFIC, processed
from analytics.settings import ArchiveSettings, table_location
from analytics.shapes import DEEPEST
from analytics.sketches import sketch_of
from analytics.tables import DEAD_LETTERS, OUTCOMES
from analytics.transforms import to_events
from infra.clock import Clock, EventIds
from infra.settings import LogSettings
from tests.analytics.conftest import OpenGold, append
from tests.analytics.test_transforms import raw
from tests.events import an_event
from tests.faults.broken import archive_notes_gold_apart

TRAFFIC_RECIPE, PROCESSORS_RECIPE, DRIFT_RECIPE = RECIPES
RECEIVED = datetime(2026, 2, 28, 23, 59, 59, 999000, tzinfo=UTC)


def archived(events: CommittedTable, spark: SparkSession, *changes: dict[str, Any], batch: int) -> None:
    rows = to_events(raw(spark, *changes), batch=batch, archived_at=RECEIVED + timedelta(seconds=1))
    events.append(rows, commit=Commit("run", "events", batch, {}, read=len(changes)))


def table(spark: SparkSession, home: Path, name: str) -> DataFrame:
    return spark.read.format("delta").load(table_location(ArchiveSettings(), home=home, table=name))


def traffic(spark: SparkSession, home: Path) -> dict[tuple[str, str], Row]:
    return {(row.source, row.event_type): row for row in table(spark, home, "traffic_hourly").collect()}


def test_each_refresh_adds_what_is_new_and_nothing_else(
    spark: SparkSession, events: CommittedTable, open_gold: OpenGold, home: Path
) -> None:
    gold = open_gold()
    archived(events, spark, {"id": "1", "body": b"12345"}, {"id": "2", "conflict": True}, {"id": "3", "event_type": "github.star"}, batch=1)
    gold.refresh(TRAFFIC_RECIPE)
    archived(events, spark, {"id": "4", "body": b"123"}, {"id": "5", "timestamp": 1772323200000}, batch=2)

    gold.refresh(TRAFFIC_RECIPE)
    gold.refresh(TRAFFIC_RECIPE)
    open_gold().refresh(TRAFFIC_RECIPE)

    rows = table(spark, home, "traffic_hourly").orderBy("hour", "event_type").collect()
    assert [(str(row.date), row.hour.hour, row.event_type, row.events, row.bytes, row.conflicts) for row in rows] == [
        ("2026-02-28", rows[0].hour.hour, "github.push", 3, 10, 1),
        ("2026-02-28", rows[0].hour.hour, "github.star", 1, 2, 0),
        ("2026-03-01", rows[2].hour.hour, "github.push", 1, 2, 0),
    ]
    # The times of the commits are of today, and the events of long ago: a latency is from one to the other.
    assert rows[0].archive_p50_ms > 1000
    assert GoldChain(spark, table=TRAFFIC_HOURLY, location=str(home / "lake" / "traffic_hourly")).newest_commit(run="").number == 2


class Died(BaseException):
    """What a kill would have been."""


def die_at(place: str) -> Callable[[str], None]:
    def reach(name: str) -> None:
        if name == place:
            raise Died(name)

    return reach


@pytest.mark.fault("E20")
@pytest.mark.parametrize("place", ["gold.before_commit", "gold.before_read_back", "gold.before_sync", "gold.after_sync"])
def test_whatever_dies_in_a_refresh_everything_is_counted_once(
    place: str, spark: SparkSession, events: CommittedTable, open_gold: OpenGold, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    counted = counted_after_dying_at(place, spark, events, open_gold, home, monkeypatch)

    assert counted == 2


@pytest.mark.control("E20")
def test_a_refresh_that_notes_apart_how_far_it_has_counted_counts_twice(
    spark: SparkSession, events: CommittedTable, open_gold: OpenGold, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(GoldChain, "replace_rows", archive_notes_gold_apart.replace_then_note)
    monkeypatch.setattr(GoldChain, "newest_commit", archive_notes_gold_apart.noted)

    assert counted_after_dying_at("gold.before_sync", spark, events, open_gold, home, monkeypatch) == 4


def counted_after_dying_at(
    place: str, spark: SparkSession, events: CommittedTable, open_gold: OpenGold, home: Path, monkeypatch: pytest.MonkeyPatch
) -> int:
    archived(events, spark, {"id": "1"}, {"id": "2"}, batch=1)
    with monkeypatch.context() as dying:
        for module in (gold_commits, synced):  # The steps of every commit are reached in one place, those of a refresh in another.
            dying.setattr(module, "reach", die_at(place))
        with pytest.raises(Died):
            open_gold().refresh(TRAFFIC_RECIPE)
    open_gold().refresh(TRAFFIC_RECIPE)
    return sum(row.events for row in traffic(spark, home).values())


def test_compaction_erasure_and_a_restored_table_leave_the_counts_right(
    spark: SparkSession, events: CommittedTable, open_gold: OpenGold, home: Path, location: str
) -> None:
    gold, stored = open_gold(), DeltaTable.forPath(spark, location)
    archived(events, spark, {"id": "1"}, {"id": "2", "source": "gone"}, batch=1)
    archived(events, spark, {"id": "3"}, batch=2)
    gold.refresh(TRAFFIC_RECIPE)

    stored.optimize().executeCompaction()
    stored.delete("source = 'gone'")
    DeltaTable.forPath(spark, str(home / "lake" / "traffic_hourly")).optimize().executeCompaction()
    archived(events, spark, {"id": "4"}, batch=3)
    open_gold().refresh(TRAFFIC_RECIPE)
    assert {source: row.events for (source, _), row in traffic(spark, home).items()} == {"github": 3, "gone": 1}

    stored.restoreToVersion(1)
    # The archive reads again what is gone, under numbers that are higher than any before.
    archived(events, spark, {"id": "3"}, batch=4)
    for _ in range(2):
        open_gold().refresh(TRAFFIC_RECIPE)
    assert {source: row.events for (source, _), row in traffic(spark, home).items()} == {"github": 2, "gone": 1}


Breaks = Callable[[pytest.MonkeyPatch], object]


def nothing(_: pytest.MonkeyPatch) -> None:
    """Gold as it is."""


def goes_on_from_its_own_newest_commit(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever lies on top of it."""
    monkeypatch.setattr(GoldChain, "own_entry", synced.SyncedTable.own_entry)
    monkeypatch.setattr(GoldChain, "is_restored", lambda _: False)


@pytest.mark.parametrize(
    ("breaks", "is_faithful"),
    [
        pytest.param(nothing, True, id="real", marks=pytest.mark.fault("E9")),
        pytest.param(goes_on_from_its_own_newest_commit, False, id="control", marks=pytest.mark.control("E9")),
    ],
)
def test_a_gold_table_that_is_restored_counts_again_what_it_lacks(
    spark: SparkSession, events: CommittedTable, open_gold: OpenGold, home: Path, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str], breaks: Breaks, is_faithful: bool,
) -> None:  # fmt: skip
    breaks(monkeypatch)
    for batch in (1, 2, 3):
        archived(events, spark, {"id": str(batch)}, batch=batch)
        open_gold().refresh(TRAFFIC_RECIPE)
    stored = DeltaTable.forPath(spark, str(home / "lake" / "traffic_hourly"))

    stored.restoreToVersion(1)  # the first refresh
    archived(events, spark, {"id": "4"}, batch=4)
    for _ in range(2):
        open_gold().refresh(TRAFFIC_RECIPE)

    assert (counted_events(spark, home) == 4) is is_faithful
    assert capsys.readouterr().err.count("a gold table was restored") == int(is_faithful)


@pytest.mark.fault("E9")
def test_a_gold_table_that_is_restored_twice_to_nothing_new_or_by_time_is_right_again_and_said_once_each(
    spark: SparkSession, events: CommittedTable, open_gold: OpenGold, home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for batch in (1, 2):
        archived(events, spark, {"id": str(batch)}, batch=batch)
        open_gold().refresh(TRAFFIC_RECIPE)
    stored = DeltaTable.forPath(spark, str(home / "lake" / "traffic_hourly"))
    (first,) = stored.history().where("version = 1").collect()

    stored.restoreToVersion(1)
    stored.restoreToVersion(2)  # all that there is
    for _ in range(2):
        open_gold().refresh(TRAFFIC_RECIPE)
    assert counted_events(spark, home) == 2

    stored.restoreToTimestamp(first.timestamp.isoformat(sep=" "))
    for _ in range(2):
        open_gold().refresh(TRAFFIC_RECIPE)
    assert counted_events(spark, home) == 2
    assert capsys.readouterr().err.count("a gold table was restored") == 2


def counted_events(spark: SparkSession, home: Path) -> int:
    return sum(row.events for row in table(spark, home, "traffic_hourly").collect())


def test_duplicates_and_refusals_are_what_the_ledger_has_counted_since(
    spark: SparkSession, log: LogSettings, open_gold: OpenGold, home: Path
) -> None:
    gold, event = open_gold(), an_event()
    append(log, home, event, event, event)
    gold.refresh(TRAFFIC_RECIPE)
    append(log, home, event)
    gold.refresh(TRAFFIC_RECIPE)
    gold.refresh(TRAFFIC_RECIPE)

    (row,) = table(spark, home, "traffic_hourly").collect()
    assert (row.tenant_id, row.source, row.event_type, row.duplicates, row.refusals, row.events) == ("demo", "github", None, 3, 0, 0)
    assert row.archive_p95_ms is None


def outcomes(spark: SparkSession, *rows: tuple[str, str, str, str, datetime, float]) -> DataFrame:
    names = "event_id STRING, group_name STRING, processor STRING, step STRING, started_at TIMESTAMP, duration_ms DOUBLE"
    return spark.createDataFrame(rows, names).selectExpr("*", "'outcome' AS kind")


def test_latencies_are_from_the_receiver_to_the_ack_of_events_that_are_recent(spark: SparkSession) -> None:
    now = datetime.now(UTC)
    ids = EventIds(Clock(wall_ns=lambda: int(now.timestamp() * 1e9)))
    one, two, old = ids.mint(), ids.mint(), "0190aaaa-0000-7000-8000-000000000001"
    soon = now + timedelta(seconds=2)
    found = outcomes(
        spark,
        (one, "g", "index", "retry", now, 5.0),
        (one, "g", "index", "ack", soon, 500.0),
        (two, "g", "index", "dead_letter", now, 7.0),
        (old, "g", "index", "ack", now, 1.0),
        (two, "g", "", "ack", now, 0.0),
    )
    known = spark.createDataFrame([(one, "demo", "github", "github.push")], "id STRING, tenant_id STRING, source STRING, event_type STRING")

    by_processor = {row.processor: row for row in PROCESSORS.merged(settled(found)).collect()}
    by_source = {row.source: row for row in TRAFFIC.merged(processed(found, events=known)).collect()}

    index = by_processor["index"]
    assert (index.attempts, index.acked, index.retried, index.dead, index.parked, index.requeued) == (4, 2, 1, 1, 0, 0)
    assert (index.run_p99_ms, round(index.latency_p50_ms)) == (500.0, 2500)
    assert (by_source["github"].processed, round(by_source["github"].processing_p95_ms)) == (1, 2500)
    # Of an event that is not archived nobody knows whose it is.
    assert by_source[None].processed == 1


def test_sketches_of_many_refreshes_give_the_percentiles_of_all(spark: SparkSession) -> None:
    values = spark.range(10_000).selectExpr("id % 7 AS part", "timestamp'2026-01-01 10:30:00' AS at", "CAST(id AS DOUBLE) AS value")
    parts = values.groupBy("part", "at").agg(sketch_of(F.col("value")).alias("archive_sketch"))
    named = parts.selectExpr(
        "DATE(at) AS date", "date_trunc('hour', at) AS hour", "'t' AS tenant_id", "'s' AS source", "'e' AS event_type",
        *(f"1L AS {name}" for name in TRAFFIC.sums), "archive_sketch", "CAST(NULL AS BINARY) AS processing_sketch",
    )  # fmt: skip

    once = TRAFFIC.merged(named.where("part < 4")).transform(TRAFFIC.as_parts)
    (row,) = TRAFFIC.merged(once.unionByName(named.where("part >= 4"))).collect()

    assert (row.events, row.processing_p50_ms) == (7, None)
    assert [abs(row[f"archive_p{percent}_ms"] - 100 * percent) < 150 for percent in (50, 95, 99)] == [True] * 3


def test_drift_tells_since_when_a_type_of_event_has_which_members(
    spark: SparkSession, events: CommittedTable, open_gold: OpenGold, home: Path
) -> None:
    gold, day_ms = open_gold(), 86_400_000
    archived(events, spark, {"id": "1", "body": b'{"a": 1, "b": ["x"]}'}, {"id": "2", "body": b"no json"}, batch=1)
    gold.refresh(DRIFT_RECIPE)
    archived(events, spark, {"id": "3", "body": b'{"a": "one", "octo@example.com": 1}', "timestamp": 1772323199999 + day_ms}, batch=2)
    gold.refresh(DRIFT_RECIPE)

    rows = table(spark, home, "schema_drift").orderBy("path", "type").collect()
    assert [(row.path, row.type, row.events, row.first_event, row.first_seen == row.last_seen) for row in rows] == [
        ("$", "object", 2, "1", False),
        ("*", "integer", 1, "3", True),
        ("a", "integer", 1, "1", True),
        ("a", "string", 1, "3", True),
        ("b", "array", 1, "1", True),
        ("b[]", "string", 1, "1", True),
    ]
    assert {(row.namespace, row.event_type) for row in rows} == {("github", "github.push")}


def test_a_payload_that_is_nested_very_deep_is_counted_with_what_lies_above(
    spark: SparkSession, events: CommittedTable, open_gold: OpenGold, home: Path
) -> None:
    deepest, too_deep = (b'{"a":' * levels + b"1" + b"}" * levels for levels in (1000, 1001))
    bodies = (deepest, b'{"b": 1}', too_deep, b"[" * 1000 + b"]" * 1000)
    archived(events, spark, *({"id": str(place), "body": body} for place, body in enumerate(bodies)), batch=1)
    # What is nested deeper still is no payload, so this is as deep as one can be.
    assert [row.id for row in events.dataframe().where("payload IS NULL").collect()] == ["2"]

    open_gold().refresh(DRIFT_RECIPE)

    paths = {(row.path, row.type) for row in table(spark, home, "schema_drift").collect()}
    assert {("$", "object"), ("b", "integer"), (".".join("a" * DEEPEST), "object"), ("[]" * DEEPEST, "array")} <= paths
    assert len(paths) == 3 + 2 * DEEPEST


def test_of_very_many_paths_the_first_are_kept_and_the_rest_is_one_row(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("analytics.gold_drift.MOST_PATHS", 2)
    columns = ", ".join(f"`{column.name}` {column.type}" for column in SCHEMA_DRIFT.columns)
    rows = [("n", "n.e", f"p{number}", "string", 1, RECEIVED + timedelta(hours=number), "x", RECEIVED) for number in range(5)]
    stored = spark.createDataFrame(rows, columns)

    once = merged_drift(drift_as_parts(stored))
    again = merged_drift(drift_as_parts(once.unionByName(stored)))

    assert sorted((row.path, row.events) for row in once.collect()) == [(FURTHER, 3), ("p0", 1), ("p1", 1)]
    assert sorted((row.path, row.events) for row in again.collect()) == [(FURTHER, 6), ("p0", 2), ("p1", 2)]


def test_a_batch_without_rows_is_taken_in_like_any_other(spark: SparkSession, events: CommittedTable, open_gold: OpenGold) -> None:
    archived(events, spark, {"id": "1"}, batch=1)
    gold = open_gold()
    gold.refresh(TRAFFIC_RECIPE)
    archived(events, spark, batch=2)

    gold.refresh(TRAFFIC_RECIPE)

    assert in_partitions("date", []) == "FALSE"


def test_outcomes_and_decisions_are_counted_from_their_tables(spark: SparkSession, open_gold: OpenGold, home: Path) -> None:
    now = datetime.now(UTC)
    ran = outcomes(spark, ("0190aaaa-0000-7000-8000-000000000001", "g", "index", "retry", now, 7.0))
    state = spark.createDataFrame(
        [("state", "g", "requeued", now)], "record STRING, group_name STRING, state STRING, recorded_at TIMESTAMP"
    )
    for table_of, rows in ((OUTCOMES, ran), (DEAD_LETTERS, state)):
        filled = rows.withColumns({"batch": F.lit(1).cast("bigint"), "recorded_date": F.to_date(F.lit(now)), "archived_at": F.lit(now)})
        location = table_location(ArchiveSettings(), home=home, table=table_of.name)
        CommittedTable(spark, table=table_of, location=location).append(filled, commit=Commit("run", table_of.name, 1, {}, read=1))
    gold = open_gold()

    for _ in range(2):
        gold.refresh(PROCESSORS_RECIPE)

    found = table(spark, home, "processors_hourly").orderBy("processor").collect()
    assert [(row.group_name, row.processor, row.attempts, row.retried, row.requeued) for row in found] == [
        ("g", None, 0, 0, 1),
        ("g", "index", 1, 1, 0),
    ]
