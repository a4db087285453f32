"""Owns `hooklake query`: asks one read-only SQL question about the archived tables and writes the rows."""

from __future__ import annotations

import logging
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from analytics.catalog import Lake
from analytics.formats import Format, refuse_unwritable, write
from analytics.parameters import bound, parameters_of
from analytics.questions import Limits, Question
from analytics.reaching import reached
from analytics.settings import ArchiveSettings
from infra.running.cli import run
from infra.settings import load_settings, set_environment
from schemas.errors import ConfigError

STDIN = "-"
DEFAULTS = Limits()

app = typer.Typer(add_completion=False)

Limit = Annotated[int, typer.Option(min=1, help="How many rows are shown at most.")]
Timeout = Annotated[float, typer.Option(min=0.1, help="After how many seconds a query is cancelled.")]
MaxBytes = Annotated[int, typer.Option(min=1, help="How large the shown rows may be together, written as JSON.")]
Form = Annotated[Format | None, typer.Option("--format", help="How rows are written; parquet needs --output.")]


@app.command()
def main(
    sql: Annotated[
        str, typer.Argument(help="A SELECT over the tables, such as: SELECT event_type, count(*) FROM events GROUP BY ALL; - reads stdin.")
    ] = "",
    file: Annotated[Path | None, typer.Option(help="Reads the query from this file instead.")] = None,
    param: Annotated[
        list[str] | None, typer.Option(help="A value for :name in the query, as name=value or name:type=value; may be repeated.")
    ] = None,
    form: Form = None,
    as_array: Annotated[bool, typer.Option("--json", help="The same as --format json: one array, a line for each row.")] = False,
    output: Annotated[Path | None, typer.Option(help="Writes the rows into this file; one that exists is replaced.")] = None,
    limit: Limit = DEFAULTS.rows,
    timeout: Timeout = DEFAULTS.timeout_s,
    max_bytes: MaxBytes = DEFAULTS.size_bytes,
) -> None:
    """Runs a read-only SQL query over the archived tables and shows the rows.

    The running archive answers; without one, a Spark is started for the query.
    """
    text = bound(statement(sql, file=file), values=parameters_of(param or ()))
    question = Question(text, Limits(limit, timeout, max_bytes))
    wanted = chosen_format(form, as_array=as_array)
    refuse_unwritable(wanted, output=output)
    settings = load_settings()
    be_quiet()
    lake = Lake(settings.section("archive", ArchiveSettings), settings.home)
    with reached(lake, first=question.sql, say=waiting) as asked, waiting(f"asking {asked.name}"):
        found = asked.answer(question)
    write(found, form=wanted, output=output)


def statement(sql: str, *, file: Path | None) -> str:
    """Raises ConfigError unless there is exactly one place to read the query from."""
    if bool(sql) == (file is not None):
        raise ConfigError("there must be one query, as the argument, from --file or, with -, from stdin")
    try:
        text = sys.stdin.read() if sql == STDIN else sql or Path(file or "").read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"the query cannot be read from {file or 'stdin'}: {error}") from error
    if not text.strip():
        raise ConfigError("the query is empty, so there is nothing to ask")
    return text


def chosen_format(form: Format | None, *, as_array: bool) -> Format:
    if as_array and form not in (None, Format.JSON):
        raise ConfigError(f"--json and --format {form} ask for two things: give one of them")
    return Format.JSON if as_array else form or Format.TABLE


def be_quiet() -> None:
    """For a process that prints an answer and nothing else."""
    logging.disable()  # What pyspark would log is in the sentence that we print.
    # Spark hands out times as the process's local time; with UTC nothing is lost on the way.
    set_environment({"TZ": "UTC"})
    time.tzset()


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
