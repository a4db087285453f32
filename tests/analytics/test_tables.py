from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from pyspark.sql.types import StructType

from analytics.commits import CommittedTable
from analytics.delta_log import is_table
from analytics.opening import different_types, open_table
from analytics.tables import EVENTS
from schemas.errors import SchemaDrift


def test_a_new_table_has_every_column_with_its_comment_and_is_partitioned(events: CommittedTable) -> None:
    schema = events.dataframe().schema

    assert [(field.name, field.metadata["comment"]) for field in schema] == [(column.name, column.comment) for column in EVENTS.columns]
    assert list(different_types(EVENTS.schema, schema)) == []


def test_a_table_whose_creation_was_killed_is_created_again(spark: SparkSession, location: str) -> None:
    log = Path(location) / "_delta_log"
    log.mkdir(parents=True)
    (log / ".00000000000000000000.json.b5c4.tmp").write_text('{"commitInfo":')
    assert not is_table(spark, location=location)

    open_table(spark, table=EVENTS, location=location)

    assert is_table(spark, location=location)
    assert CommittedTable(spark, table=EVENTS, location=location).dataframe().count() == 0


def test_a_table_with_a_column_of_another_type_is_refused(spark: SparkSession, location: str) -> None:
    spark.sql("SELECT 'one' AS id, 'text' AS sequence, DATE'2026-01-01' AS received_date").write.format("delta").save(location)

    with pytest.raises(SchemaDrift, match=r"the column sequence of .* is string, and the archive writes bigint"):
        open_table(spark, table=EVENTS, location=location)


def test_a_field_inside_a_struct_is_compared_too() -> None:
    ours, stored = StructType.fromDDL("a STRUCT<b: INT, c: INT>"), StructType.fromDDL("a STRUCT<b: INT, c: STRING>")
    assert isinstance(ours, StructType)
    assert isinstance(stored, StructType)

    assert [name for name, _, _ in different_types(ours, stored)] == ["a.c"]


def test_columns_that_others_have_added_and_columns_that_are_missing_are_no_drift() -> None:
    ours, stored = StructType.fromDDL("a INT, b INT"), StructType.fromDDL("b INT, theirs STRING")
    assert isinstance(ours, StructType)
    assert isinstance(stored, StructType)

    assert list(different_types(ours, stored)) == []


def test_every_column_that_files_are_found_by_exists() -> None:
    assert set(EVENTS.indexed) <= {column.name for column in EVENTS.columns}
    assert EVENTS.partitioned_by in {column.name for column in EVENTS.columns}
