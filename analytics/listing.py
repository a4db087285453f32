"""Owns `hooklake tables`: what there is to ask on one screen, without starting Spark where the tables are on this machine."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

import typer
from delta.tables import DeltaTable
from pyspark.sql import SparkSession
from pyspark.sql.types import StructType
from rich.console import Console
from rich.table import Table as RichTable

from analytics.catalog import KNOWN_TABLES, Lake, views
from analytics.delta_log import is_table
from analytics.session import quick_session, stop_session
from analytics.settings import ArchiveSettings, is_address
from analytics.table_facts import Facts, StoredColumn, columns_of, read_facts
from analytics.tables import Table
from analytics.views import View
from infra.running.cli import run
from infra.running.screen import table_console
from infra.settings import load_settings
from schemas.errors import NotFound

app = typer.Typer(add_completion=False)


@dataclass(frozen=True, slots=True)
class Listed:
    """A table or a view, as a listing shows it."""

    name: str
    kind: str
    comment: str
    location: str
    facts: Facts | None
    """None for a view, and for a table that does not exist yet."""
    columns: tuple[StoredColumn, ...]


@app.command()
def main(
    name: Annotated[str, typer.Argument(help="Shows the columns of this table; all tables and views when not given.")] = "",
    as_json: Annotated[bool, typer.Option("--json", help="Prints everything as one JSON array.")] = False,
) -> None:
    """Shows the tables: rows, files, bytes, newest commit and columns."""
    settings = load_settings()
    lake = Lake(settings.section("archive", ArchiveSettings), settings.home)
    found = [one for one in listed(lake) if name in ("", one.name)]
    if not found:
        names = ", ".join([table.name for table in KNOWN_TABLES] + list(views()))
        raise NotFound(f"there is no table {name!r}: there are {names}")
    if as_json:
        print(json.dumps([as_object(one) for one in found], indent=2))
    elif name:
        show_columns(found[0])
    else:
        show(found)


def listed(lake: Lake) -> list[Listed]:
    """Every table, then every view; raises TableUnavailable when one cannot be read."""
    facts = facts_through_spark(lake) if is_address(lake.settings.path) else facts_on_this_machine(lake)
    return [_table(table, lake=lake, facts=facts[table.name]) for table in KNOWN_TABLES] + [_view(view) for view in views().values()]


def facts_on_this_machine(lake: Lake) -> dict[str, Facts | None]:
    return {table.name: read_facts(Path(lake.location(table))) for table in KNOWN_TABLES}


def _table(table: Table, *, lake: Lake, facts: Facts | None) -> Listed:
    declared = tuple(StoredColumn(column.name, column.type, column.comment) for column in table.columns)
    return Listed(table.name, "table", "", lake.location(table), facts, facts.columns if facts else declared)


def _view(view: View) -> Listed:
    """Its columns have no types here: only Spark can tell what the SQL makes of them."""
    return Listed(view.name, "view", view.comment, "", None, tuple(StoredColumn(one.name, "", one.comment) for one in view.columns))


def facts_through_spark(lake: Lake) -> dict[str, Facts | None]:
    """For an object store, which only Spark can read."""
    spark = quick_session(lake.settings, home=lake.home)
    try:
        return {table.name: spark_facts(spark, location=lake.location(table)) for table in KNOWN_TABLES}
    finally:
        stop_session(spark)


def spark_facts(spark: SparkSession, *, location: str) -> Facts | None:
    if not is_table(spark, location=location):
        return None
    table = DeltaTable.forPath(spark, location)
    (detail,), (newest,) = table.detail().collect(), table.history(1).collect()
    schema: StructType = table.toDF().schema
    committed_at = newest.timestamp.astimezone(UTC)
    return Facts(newest.version, table.toDF().count(), detail.numFiles, detail.sizeInBytes, committed_at, columns_of(schema.json()))


def as_object(one: Listed) -> dict[str, Any]:
    """What a program reads. Pure."""
    told = ("version", "rows", "files", "size_bytes")
    facts: dict[str, Any] = {name: getattr(one.facts, name, None) for name in told}
    facts["committed_at"] = one.facts.committed_at.isoformat() if one.facts and one.facts.committed_at else None
    rest = {"name": one.name, "kind": one.kind, "comment": one.comment, "location": one.location, "exists": one.facts is not None}
    return {**rest, **facts, "columns": [asdict(column) for column in one.columns]}


def show(found: list[Listed]) -> None:
    tables = RichTable("table", "rows", "files", "size", "newest commit", "version", box=None, pad_edge=False)
    shown_views = RichTable("view", "what its rows are", box=None, pad_edge=False)
    for one in found:
        if one.kind == "view":
            shown_views.add_row(one.name, one.comment)
        else:
            tables.add_row(one.name, *(_cells(one.facts) if one.facts else ("does not exist yet",)))
    for part in (tables, shown_views):
        if part.rows:
            table_console().print(part)
    Console(highlight=False, soft_wrap=True).print("`hooklake tables NAME` shows the columns of one.")


def _cells(facts: Facts) -> tuple[str, ...]:
    rows = "unknown" if facts.rows is None else str(facts.rows)
    return rows, str(facts.files), size_text(facts.size_bytes), age_text(facts.committed_at), str(facts.version)


def show_columns(one: Listed) -> None:
    table = RichTable("column", "type", "what it is", box=None, pad_edge=False)
    for column in one.columns:
        table.add_row(column.name, column.type, column.comment)
    table_console().print(table if one.columns else one.comment)


def size_text(size_bytes: int) -> str:
    """Pure."""
    size, units = float(size_bytes), ["B", "KiB", "MiB", "GiB", "TiB"]
    while size >= 1024 and len(units) > 1:
        size, units = size / 1024, units[1:]
    return f"{size:.0f} {units[0]}" if units[0] == "B" else f"{size:.1f} {units[0]}"


def age_text(moment: datetime | None) -> str:
    """When, and how long ago that is."""
    if moment is None:
        return "unknown"
    seconds = max(0, int((datetime.now(UTC) - moment).total_seconds()))
    ago = f"{seconds} s" if seconds < 120 else f"{seconds // 60} min" if seconds < 7200 else f"{seconds // 3600} h"
    return f"{moment:%Y-%m-%d %H:%M:%S} ({ago} ago)"


if __name__ == "__main__":
    run(app)
