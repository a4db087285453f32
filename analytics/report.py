"""Owns `hooklake report`: asks the gold tables about a time, and writes one HTML page that shows it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from analytics.catalog import Lake
from analytics.query import be_quiet, waiting
from analytics.questions import Limits, Question
from analytics.reaching import reached
from analytics.report_data import find, questions
from analytics.report_page import page_of
from analytics.settings import ArchiveSettings
from infra.clock import Clock
from infra.running.cli import run
from infra.running.moments import parse_moment
from infra.settings import load_settings
from schemas.errors import ConfigError

# Hours of two weeks, times the sources of a large installation.
LIMITS = Limits(rows=200_000, timeout_s=300.0)

app = typer.Typer(add_completion=False)


@app.command()
def main(
    output: Annotated[Path, typer.Option(help="The page; a file that exists is replaced.")] = Path("hooklake-report.html"),
    since: Annotated[str, typer.Option(help="From when on: 7d for a week ago, or 2026-01-31T12:00:00Z.")] = "7d",
    until: Annotated[str, typer.Option(help="Until when; 0s is now.")] = "0s",
) -> None:
    """Writes an HTML page with plots of traffic, latency, failures and drift."""
    now = Clock().now()
    begin, end = parse_moment(since, now=now, option="--since"), parse_moment(until, now=now, option="--until")
    if begin >= end:
        raise ConfigError(f"--since {since} is not before --until {until}, so there is nothing to report")
    # The tables know hours, so the first one is shown whole.
    begin = begin.replace(minute=0, second=0, microsecond=0)
    settings = load_settings()
    be_quiet()
    lake = Lake(settings.section("archive", ArchiveSettings), settings.home)
    first, *_ = questions(since=begin, until=end).values()
    with reached(lake, first=first, say=waiting) as asked, waiting(f"asking {asked.name}"):
        found = find(lambda sql: asked.answer(Question(sql, LIMITS)).rows, since=begin, until=end)
    page = page_of(found, made_at=now)
    try:
        output.write_text(page, encoding="utf-8")
    except OSError as error:
        raise ConfigError(f"--output: {output} cannot be written ({error.strerror}); name a file in a directory that is yours") from error
    print(f"wrote {output.absolute()}")


if __name__ == "__main__":
    run(app)
