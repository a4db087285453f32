"""Owns `hooklake query`: runs one read-only SQL statement over the archived tables and prints the rows."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer
from pyspark.errors import PySparkException
from pyspark.sql import Row, SparkSession
from rich.console import Console
from rich.table import Table as RichTable

from analytics.rendering import as_json, as_text
from analytics.session import quick_session, stop_session
from analytics.settings import ArchiveSettings, is_address, table_location
from analytics.statements import harden, refuse_all_but_questions
from analytics.tables import TABLES
from infra.running.cli import run
from infra.running.screen import table_console
from infra.settings import load_settings, set_environment
from schemas.errors import ConfigError, TableUnavailable

app = typer.Typer(add_completion=False)


@app.command()
def main(
    sql: Annotated[str, typer.Argument(help="A SELECT over the tables, such as: SELECT event_type, count(*) FROM events GROUP BY ALL")],
    as_array: Annotated[bool, typer.Option("--json", help="Prints the rows as one JSON array, an object and a line for each.")] = False,
    limit: Annotated[int, typer.Option(min=1, help="How many rows are printed at most.")] = 1000,
) -> None:
    """Runs a read-only SQL query over the archived events and prints the rows."""
    settings = load_settings()
    section = settings.section("archive", ArchiveSettings)
    refuse_empty_lake(section, home=settings.home)
    logging.disable()  # What pyspark would log is in the sentence that we print.
    # Spark hands out times as the process's local time; with UTC nothing is lost on the way.
    set_environment({"TZ": "UTC"})
    time.tzset()
    with waiting("starting Spark"):
        spark = quick_session(section, home=settings.home)
    try:
        with waiting("running the query"):
            columns, rows = answer(spark, sql=sql, settings=section, home=settings.home, limit=limit + 1)
    finally:
        stop_session(spark)
    print_rows(columns, rows=rows[:limit], as_array=as_array)
    if len(rows) > limit:
        Console(stderr=True).print(f"There are more rows; these are the first {limit}. Use --limit to see more.", highlight=False)


def refuse_empty_lake(settings: ArchiveSettings, *, home: Path) -> None:
    """Raises TableUnavailable before Spark is started for nothing."""
    for table in TABLES:
        location = table_location(settings, home=home, table=table.name)
        if not is_address(location) and not (Path(location) / "_delta_log").is_dir():
            raise TableUnavailable(f"there is no table `{table.name}` yet at {location}: it appears with the archive's first batch")


def answer(spark: SparkSession, *, sql: str, settings: ArchiveSettings, home: Path, limit: int) -> tuple[list[str], list[Row]]:
    """The names of the columns, and up to `limit` rows; raises ConfigError for a query that is refused or wrong."""
    try:
        for table in TABLES:
            spark.read.format("delta").load(table_location(settings, home=home, table=table.name)).createOrReplaceTempView(table.name)
        harden(spark)
        refuse_all_but_questions(spark, sql=sql)
        found = spark.sql(sql)
        return found.columns, found.limit(limit).collect()
    except PySparkException as error:
        raise ConfigError(f"the query failed: {error.getMessage() or error}") from error


def print_rows(columns: list[str], *, rows: list[Row], as_array: bool) -> None:
    if as_array:
        print("[" + ",\n ".join(as_json(row) for row in rows) + "]")
        return
    table = RichTable(*columns)
    for row in rows:
        table.add_row(*(as_text(value) for value in row))
    table_console().print(table)


@contextmanager
def waiting(message: str) -> Iterator[None]:
    """A line that moves, on a terminal; nothing elsewhere."""
    console = Console(stderr=True)
    if not console.is_terminal:
        yield
        return
    with console.status(message):
        yield


if __name__ == "__main__":
    run(app)
