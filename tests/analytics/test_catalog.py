from __future__ import annotations

from pathlib import Path

from pyspark.sql import SparkSession

from analytics.catalog import KNOWN_TABLES, Lake, empty, known_names, relation
from analytics.settings import ArchiveSettings


def test_every_name_that_is_known_can_be_read_before_there_is_any_table(spark: SparkSession, tmp_path: Path) -> None:
    session = spark.newSession()
    lake = Lake(ArchiveSettings(), tmp_path)

    for name in known_names():
        assert relation(session, name=name, lake=lake).collect() == [], name


def test_a_table_that_does_not_exist_has_its_columns(spark: SparkSession) -> None:
    for table in KNOWN_TABLES:
        assert spark.sql(empty(table)).dtypes == [(field.name, field.dataType.simpleString()) for field in table.schema.fields]
