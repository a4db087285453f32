"""Owns `hooklake audit`: whether the tables hold what was received, in a window of time, and nothing was lost, changed or doubled.

0  nothing is wrong        1  something is        3  the tables cannot be read just now
"""

from __future__ import annotations

import json
import logging
import time
from contextlib import closing
from dataclasses import asdict
from datetime import datetime
from pathlib import Path
from typing import Annotated
from urllib.parse import unquote, urlparse

import typer
from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from rich.table import Table

from analytics.auditing import Findings, Life, Ranges, check_bodies, check_duplicates, check_numbers, in_window
from analytics.catalog import KNOWN_TABLES, Lake
from analytics.commits import from_metadata
from analytics.delta_log import DeltaLog
from analytics.query import waiting
from analytics.reaching import refuse_empty
from analytics.reverifying import INCOMPLETE, reverify
from analytics.scrub import scrub
from analytics.session import quick_session, stop_session
from analytics.settings import ArchiveSettings, is_address, table_location
from analytics.synced import first_line
from analytics.tables import EVENTS
from infra.clock import Clock
from infra.running.cli import EXIT_FAILED, run
from infra.running.moments import parse_moment
from infra.running.screen import table_console, visible
from infra.settings import Settings, load_settings, set_environment
from infra.streams.erasing import Erasing
from schemas.errors import StreamUnavailable, TableUnavailable

app = typer.Typer(add_completion=False)


@app.command()
def main(
    since: Annotated[str, typer.Option(help="Only events received at this time or later: ISO 8601, or `2h` ago.")] = "",
    until: Annotated[str, typer.Option(help="Only events received before this time.")] = "",
    tenant: Annotated[str, typer.Option(help="Only events of this tenant.")] = "",
    source: Annotated[str, typer.Option(help="Only events of this source.")] = "",
    signatures: Annotated[bool, typer.Option(help="Verify signatures again; takes longest.")] = True,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Reads every file of the tables, hashes bodies and verifies signatures again, and looks for gaps and duplicates.

    Exits with 1 when something is wrong. Changes nothing.
    """
    settings, now = load_settings(), Clock().now()
    section = settings.section("archive", ArchiveSettings)
    refuse_empty(Lake(section, settings.home))
    window = {
        "since": parse_moment(since, now=now, option="--since") if since else None,
        "until": parse_moment(until, now=now, option="--until") if until else None,
    }
    logging.disable()
    set_environment({"TZ": "UTC"})
    time.tzset()
    with waiting("starting Spark"):
        spark = quick_session(section, home=settings.home)
    try:
        with waiting("auditing"):
            findings = audit(spark, settings=settings, tenant=tenant, source=source, signatures=signatures, **window)
    finally:
        stop_session(spark)
    if as_json:
        print(json.dumps({"is_wrong": findings.is_wrong, **asdict(findings)}, indent=2))
    else:
        show(findings)
    raise typer.Exit(EXIT_FAILED if findings.is_wrong else 0)


def audit(
    spark: SparkSession,
    *,
    settings: Settings,
    since: datetime | None = None,
    until: datetime | None = None,
    tenant: str = "",
    source: str = "",
    signatures: bool = True,
) -> Findings:
    """Everything that is found; a table that cannot be read is a finding, too."""
    findings, section = Findings(), settings.section("archive", ArchiveSettings)
    try:
        check_files(spark, settings=settings, section=section, findings=findings)
        location = table_location(section, home=settings.home, table=EVENTS.name)
        events = spark.read.format("delta").load(location)
        rows = in_window(events, since=since, until=until, tenant=tenant, source=source)
        check_bodies(rows, findings=findings)
        check_duplicates(rows, window_hours=int(settings.log.window.removesuffix("h")), findings=findings)
        erased, excused = known_to_be_gone(spark, settings=settings, location=location)
        check_numbers(events, rows, erased=erased, excused=excused, findings=findings)
        if signatures:
            check_signatures(rows, findings=findings)
    except (PySparkException, Py4JError) as error:
        findings.add("reads_that_failed", 1, [first_line(error)])
    return findings


def check_files(spark: SparkSession, *, settings: Settings, section: ArchiveSettings, findings: Findings) -> None:
    """Of all tables on a local disk; an object store sees to its own."""
    damaged: list[str] = []
    for table in KNOWN_TABLES:
        location = table_location(section, home=settings.home, table=table.name)
        if is_address(location) or not (Path(location) / "_delta_log").is_dir():
            continue
        found = scrub(Path(location), data_files=_data_files(spark, location=location))
        damaged += [f"{table.name}/{name}" for name in found.damaged]
        if found.unchecked:
            findings.remarks["files_without_a_checksum"] = findings.remarks.get("files_without_a_checksum", 0) + found.unchecked
    findings.add("files_that_are_damaged", len(damaged), damaged)


def _data_files(spark: SparkSession, *, location: str) -> list[Path]:
    try:
        return [Path(unquote(urlparse(path).path)) for path in spark.read.format("delta").load(location).inputFiles()]
    except (PySparkException, Py4JError):
        return sorted(Path(location).rglob("part-*.parquet"))  # Its log cannot be read, and is a finding by itself.


def known_to_be_gone(spark: SparkSession, *, settings: Settings, location: str) -> tuple[dict[Life, Ranges], int]:
    """Numbers that were erased; and how many others have no row: counted as lost, or as accepted twice, or erased when they were off the
    log, where nobody writes their numbers down."""
    log = DeltaLog(spark, location=location)
    entries = log.downwards(start=log.newest().version)
    commit = next((found for entry in entries if (found := from_metadata(entry.user_metadata, rows=entry.rows))), None)
    if commit is None:
        raise TableUnavailable(f"{location} has no commit of an archive any more: start the archive, which writes one")
    excused, erased = commit.totals.lost + commit.totals.repeated + sum(commit.expired.values()), sum(commit.erased.values())
    try:
        with closing(Erasing.open(settings.log, home=settings.home)) as erasing:
            numbers = erasing.numbers()
    except StreamUnavailable:
        return {}, excused + erased
    written_down = sum(last - first + 1 for ranges in numbers.values() for first, last in ranges)
    return numbers, excused + max(0, erased - written_down)


def check_signatures(rows: DataFrame, *, findings: Findings) -> None:
    counted, invalid = reverify(rows)
    findings.add("signatures_invalid", counted["invalid"], invalid)
    for word in ("valid", "key_gone", "unsigned", INCOMPLETE):
        findings.remarks[f"signatures_{word}"] = counted[word]


def show(findings: Findings) -> None:
    shown = Table("what", "count", "such as")
    for name, count in (*findings.wrong.items(), *findings.remarks.items()):
        some = ", ".join(findings.named.get(name, [])[:3])
        shown.add_row(("! " if findings.wrong.get(name) else "") + name.replace("_", " "), str(count), visible(some))
    console = table_console()
    console.print(shown)
    console.print(f"{findings.rows} rows audited: {'something is wrong' if findings.is_wrong else 'nothing is wrong'}")


if __name__ == "__main__":
    run(app)
