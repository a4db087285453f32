"""Owns what SQL can read by name: every table and every view, made known to a session in one place.

A table is declared in `tables.py` or `gold_tables.py`, a view is a file of `views/`: what is added there is known here.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

from analytics.delta_log import is_table
from analytics.gold_tables import GOLD_TABLES
from analytics.settings import ArchiveSettings, is_address, table_location
from analytics.statements import relations_of
from analytics.tables import TABLES, Table
from analytics.views import View, load_views

KNOWN_TABLES: tuple[Table, ...] = (*TABLES, *GOLD_TABLES)


@dataclass(frozen=True, slots=True)
class Lake:
    """Where the tables are."""

    settings: ArchiveSettings
    home: Path

    def location(self, table: Table) -> str:
        return table_location(self.settings, home=self.home, table=table.name)

    def is_there(self, table: Table) -> bool:
        """Whether the table was created; of an object store only Spark can tell, so there it is taken to be."""
        location = self.location(table)
        return is_address(location) or (Path(location) / "_delta_log").is_dir()


@cache
def views() -> dict[str, View]:
    return {view.name: view for view in load_views()}


def known_names() -> frozenset[str]:
    return frozenset({table.name for table in KNOWN_TABLES} | views().keys())


def make_known(spark: SparkSession, *, names: Iterable[str], lake: Lake) -> None:
    """Gives these tables and views their names in this session only; a table that does not exist yet is empty."""
    for name in names:
        relation(spark, name=name, lake=lake).createOrReplaceTempView(name)


def relation(spark: SparkSession, *, name: str, lake: Lake) -> DataFrame:
    """What a name stands for; what a view reads is made known first."""
    if (view := views().get(name)) is not None:
        make_known(spark, names=relations_of(spark, sql=view.sql, known=known_names()), lake=lake)
        return spark.sql(view.sql)
    table = next(table for table in KNOWN_TABLES if table.name == name)
    location = lake.location(table)
    if is_table(spark, location=location):
        return spark.read.format("delta").load(location)
    return spark.sql(empty(table))


def empty(table: Table) -> str:
    """A SELECT without rows and with this table's columns. Pure."""
    columns = ", ".join(f"CAST(NULL AS {column.type}) AS `{column.name}`" for column in table.columns)
    return f"SELECT {columns} WHERE false"


@dataclass(frozen=True, slots=True)
class PublicNames:
    """The names that every session of this Spark knows, for notebooks; as views, so that no table is written by mistake."""

    spark: SparkSession
    lake: Lake
    given: set[str] = field(default_factory=set)

    def step(self) -> None:
        """Names what has come since the last look: an archive makes its tables one after the other."""
        for table in KNOWN_TABLES:
            if table.name not in self.given and is_table(self.spark, location=(location := self.lake.location(table))):
                self._give(table.name, sql=f"WITH SCHEMA EVOLUTION AS SELECT * FROM delta.`{location}`")
        for view in views().values():
            if view.name not in self.given and relations_of(self.spark, sql=view.sql, known=known_names()) <= self.given:
                self._give(view.name, sql=f"AS {view.sql}")

    def _give(self, name: str, *, sql: str) -> None:
        self.spark.sql(f"CREATE OR REPLACE VIEW {name} {sql}")
        self.given.add(name)
