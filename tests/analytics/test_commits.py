from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

from analytics.commits import Commit, CommittedTable, Totals, from_metadata, to_metadata
from analytics.lives import Life
from analytics.tables import EVENTS
from analytics.transforms import to_events
from infra.clock import Clock
from infra.streams.positions import Position, StreamName
from schemas.errors import WriteSkipped
from tests.analytics.test_transforms import raw

STREAM = StreamName(0, "default")
FIRST = Commit("run", "events", 1, {STREAM: Position("a", "1-0", 1)}, read=1)


@pytest.fixture
def rows(spark: SparkSession) -> DataFrame:
    return a_row(spark, entry_id="1-0")


def a_row(spark: SparkSession, *, entry_id: str, batch: int = 1) -> DataFrame:
    return to_events(raw(spark, {"id": entry_id, "entry_id": entry_id}), batch=batch, archived_at=datetime.now(UTC))


def test_what_a_commit_says_of_itself_survives_the_table() -> None:
    lives = {STREAM: {"old": Life("7-0", 7, 9, 1000), "a": Life("1-0", 1, 1)}}
    books = replace(FIRST, lives=lives, accepted={0: 7, 3: 2}, accepted_before=5, recheck_until_ms=9, foreign=1, repeated=6)
    commit = replace(books, lost=2, rechecked=True, cut=True, before=Totals(rows=5, duplicates=1, lost=3, foreign=2, repeated=1), rows=4)

    assert from_metadata(to_metadata(commit), rows=4) == commit


@pytest.mark.parametrize("text", ["", "null", "[]", "{}", '{"hooklake": 3}', "OPTIMIZE", '{"hooklake": 2, "run": "x"}'])
def test_what_is_no_commit_of_an_archive_is_told_apart(text: str) -> None:
    assert from_metadata(text, rows=0) is None


def test_totals_tell_lost_entries_from_duplicates() -> None:
    blind = replace(FIRST, read=10, rows=8, before=Totals(rows=100, duplicates=5, lost=1))
    rechecked = replace(blind, rechecked=True, lost=3)

    assert blind.totals == Totals(rows=108, duplicates=5, lost=3)
    assert rechecked.totals == Totals(rows=108, duplicates=7, lost=4)


def test_a_commit_is_read_back_with_its_rows_counted(events: CommittedTable, rows: DataFrame) -> None:
    committed = events.append(rows, commit=FIRST)

    assert committed == replace(FIRST, rows=1, committed_at_ms=committed.committed_at_ms)
    assert abs(committed.committed_at_ms - Clock().now_ms()) < 600_000
    assert events.newest_commit(run="run") == committed


def test_a_batch_of_no_rows_still_carries_positions(events: CommittedTable, rows: DataFrame) -> None:
    committed = events.append(rows.limit(0), commit=replace(FIRST, read=0))

    assert events.newest_commit(run="run") == committed


def test_a_write_that_delta_skips_is_noticed(events: CommittedTable, rows: DataFrame) -> None:
    events.append(rows, commit=replace(FIRST, batch=5))

    with pytest.raises(WriteSkipped, match="the group does not move"):
        events.append(rows, commit=replace(FIRST, batch=4))

    assert events.dataframe().count() == 1


def test_a_second_writer_with_the_same_batch_number_is_noticed(spark: SparkSession, events: CommittedTable, rows: DataFrame) -> None:
    other = CommittedTable(spark, table=EVENTS, location=events.location)
    events.append(rows, commit=FIRST)

    with pytest.raises(WriteSkipped):
        other.append(rows, commit=replace(FIRST, run="another"))


def test_the_same_batch_again_returns_the_commit_that_is_there(events: CommittedTable, rows: DataFrame) -> None:
    committed = events.append(rows, commit=FIRST)
    further = replace(FIRST, positions={STREAM: Position("a", "9-0", 9)})

    assert events.append(rows, commit=further) == committed
    assert events.dataframe().count() == 1


def test_an_empty_table_has_nothing_archived(events: CommittedTable) -> None:
    assert events.newest_commit(run="run") == Commit("run", "events", 0, {})


def test_commits_of_others_lie_on_top_of_ours_without_hiding_it(spark: SparkSession, events: CommittedTable, rows: DataFrame) -> None:
    committed = events.append(rows, commit=FIRST)
    spark.sql(f"ALTER TABLE delta.`{events.location}` SET TBLPROPERTIES ('some.property' = 'changed')")

    again = CommittedTable(spark, table=EVENTS, location=events.location)

    assert again.newest_commit(run="run") == committed
    assert again.append(rows, commit=replace(FIRST, batch=2)).batch == 2


def test_without_a_commit_of_ours_the_greatest_positions_of_rows_count_compared_as_numbers(
    spark: SparkSession, events: CommittedTable
) -> None:
    for entry_id in ("9-5", "10-9", "10-10"):
        a_row(spark, entry_id=entry_id, batch=3).write.format("delta").mode("append").save(events.location)

    found = CommittedTable(spark, table=EVENTS, location=events.location).newest_commit(run="run")

    assert (found.batch, found.positions) == (3, {STREAM: Position("a", "10-10", 1)})
    assert found.lives == {STREAM: {"a": Life("10-10", 1, 1)}}
    assert found.totals.rows == 3


def test_a_column_that_the_table_does_not_have_yet_is_added(spark: SparkSession, location: str, rows: DataFrame) -> None:
    rows.drop("traceparent").limit(0).write.format("delta").partitionBy("received_date").save(location)

    older = CommittedTable(spark, table=EVENTS, location=location)
    older.append(rows, commit=FIRST)

    assert "traceparent" in older.dataframe().columns
    assert older.dataframe().count() == 1


def test_a_body_is_stored_byte_for_byte(spark: SparkSession, events: CommittedTable) -> None:
    bodies = [b"\xff\x00\xfe", b"\x00", b"", b"[" * 10_000, b'"\\ud800"', b"9" * 5_000, "Zoë".encode("utf-16")]
    entries = [{"id": str(number), "entry_id": f"{number}-0", "body": body} for number, body in enumerate(bodies)]

    events.append(to_events(raw(spark, *entries), batch=1, archived_at=datetime.now(UTC)), commit=FIRST)

    assert [bytes(row.body) for row in events.dataframe().orderBy("id").collect()] == bodies


def test_tables_leave_no_file_outside_the_home(events: CommittedTable, rows: DataFrame, home: Path) -> None:
    events.append(rows, commit=FIRST)

    assert {path.name for path in home.iterdir()} == {"lake"}
    assert not [name for name in ("spark-warehouse", "metastore_db", "derby.log") if Path(name).exists()]


def test_what_was_recalled_ahead_is_not_asked_again(spark: SparkSession, events: CommittedTable) -> None:
    """Delta's jobs over the table's log, which nobody then waits for."""
    events.append(a_row(spark, entry_id="1-0"), commit=FIRST)

    def jobs_of_batch(number: int) -> int:
        spark.sparkContext.setJobGroup(f"batch {number}", "")
        events.append(a_row(spark, entry_id=f"{number}-0", batch=number), commit=replace(FIRST, batch=number))
        spark.sparkContext.setLocalProperty("spark.jobGroup.id", None)  # type: ignore[arg-type]
        return len(spark.sparkContext.statusTracker().getJobIdsForGroup(f"batch {number}"))

    asked = jobs_of_batch(2)
    events.recall_ahead()
    events.finish_recalling()

    assert jobs_of_batch(3) < asked
