from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import orjson
import pytest
from pyspark.sql import SparkSession

from analytics.commits import Commit, CommittedTable
from analytics.listing import age_text, size_text, spark_facts
from analytics.table_facts import read_facts, type_text
from analytics.tables import EVENTS
from analytics.transforms import to_events
from schemas.errors import TableUnavailable
from tests.analytics.test_transforms import raw


def append(events: CommittedTable, spark: SparkSession, *, batch: int, rows: int) -> None:
    made = to_events(raw(spark, *({"id": f"{batch}-{number}"} for number in range(rows))), batch=batch, archived_at=datetime.now(UTC))
    events.append(made, commit=Commit("run", "events", batch, {}, read=rows))


def test_facts_are_what_spark_says_of_the_table_with_and_without_a_checkpoint(spark: SparkSession, events: CommittedTable) -> None:
    table = Path(events.location)
    append(events, spark, batch=1, rows=3)
    before = read_facts(table)
    spark.sql(f"ALTER TABLE delta.`{table}` SET TBLPROPERTIES ('delta.checkpointInterval' = '1')")
    append(events, spark, batch=2, rows=4)

    after, by_spark = read_facts(table), spark_facts(spark, location=events.location)

    assert (table / "_delta_log" / "_last_checkpoint").exists()
    assert before is not None
    assert after is not None
    assert by_spark is not None
    assert (before.rows, after.rows) == (3, 7)
    # Spark goes by the time of a file, which is that of the commit give or take some milliseconds.
    assert replace(after, committed_at=None) == replace(by_spark, committed_at=None)
    assert [(column.name, column.type, column.comment) for column in after.columns] == [
        (column.name, column.type, column.comment) for column in EVENTS.columns
    ]


def test_a_table_that_is_not_there_has_no_facts(tmp_path: Path) -> None:
    assert read_facts(tmp_path / "events") is None


def test_a_log_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    log = tmp_path / "events" / "_delta_log"
    log.mkdir(parents=True)
    (log / f"{0:020}.json").write_bytes(b'{"add": {')

    with pytest.raises(TableUnavailable, match=r"the log of .*events cannot be read"):
        read_facts(tmp_path / "events")


def test_removed_files_and_deleted_rows_do_not_count(tmp_path: Path) -> None:
    log = tmp_path / "events" / "_delta_log"
    log.mkdir(parents=True)
    stats = orjson.dumps({"numRecords": 10}).decode()
    actions = [
        {"add": {"path": "a%20b", "size": 5, "stats": stats}},
        {"add": {"path": "c", "size": 7, "stats": stats, "deletionVector": {"cardinality": 4}}},
        {"remove": {"path": "a%20b"}},
    ]
    (log / f"{0:020}.json").write_bytes(b"\n".join(orjson.dumps(action) for action in actions))

    facts = read_facts(tmp_path / "events")

    assert facts is not None
    assert (facts.rows, facts.files, facts.size_bytes) == (6, 1, 7)


def test_types_are_written_as_sql_writes_them() -> None:
    field = {"name": "of", "type": "integer"}
    struct = {"type": "struct", "fields": [field]}

    assert type_text({"type": "map", "keyType": "string", "valueType": {"type": "array", "elementType": struct}}) == (
        "MAP<STRING, ARRAY<STRUCT<of: INT>>>"
    )


def test_sizes_and_ages_are_for_people() -> None:
    assert [size_text(size) for size in (0, 1023, 1024, 5 * 1024**3)] == ["0 B", "1023 B", "1.0 KiB", "5.0 GiB"]
    assert age_text(None) == "unknown"
    assert age_text(datetime.now(UTC)).endswith(" s ago)")
