"""Owns `hooklake sql`: a prompt that asks read-only SQL questions, one after the other, under the rules of `hooklake query`.

A question ends with `;` and may have many lines. Ctrl-C leaves the question, Ctrl-D the prompt. Read from a pipe, the first question
that fails ends it, with the exit code that it would have as a query.
"""

from __future__ import annotations

import readline
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import typer
from rich.console import Console

from analytics.catalog import KNOWN_TABLES, Lake, views
from analytics.formats import Format, refuse_unwritable, write
from analytics.listing import listed, show, show_columns
from analytics.query import DEFAULTS, Form, Limit, MaxBytes, Timeout, be_quiet, waiting
from analytics.questions import Limits, Question
from analytics.reaching import Asked, reached
from analytics.settings import ArchiveSettings
from infra.running.cli import run
from infra.settings import load_settings
from schemas.errors import ConfigError, HooklakeError, QueryCancelled

HISTORY_FILE = "run/sql_history"
MOST_HISTORY = 1000
FIRST, NEXT = "hooklake> ", "       -> "
HELP = r"""\d shows the tables, \d NAME the columns of one, \f FORMAT changes how rows are written (table, json or csv), \q leaves.
A question is a SELECT over the tables and ends with a semicolon; Ctrl-C leaves it."""

app = typer.Typer(add_completion=False)


@app.command()
def main(
    form: Form = None, limit: Limit = DEFAULTS.rows, timeout: Timeout = DEFAULTS.timeout_s, max_bytes: MaxBytes = DEFAULTS.size_bytes
) -> None:
    """Opens a prompt for read-only SQL questions about the archived tables; \\d shows them, \\q leaves."""
    wanted = form or Format.TABLE
    refuse_unwritable(wanted, output=None)
    settings = load_settings()
    lake = Lake(settings.section("archive", ArchiveSettings), settings.home)
    be_quiet()
    prompt = Prompt(lake, Limits(limit, timeout, max_bytes), wanted, is_watched=sys.stdin.isatty())
    if not prompt.is_watched:
        prompt.run(lines_of_a_pipe())
        return
    history = remembered(lake.home / HISTORY_FILE)
    try:
        prompt.run(lines_of_a_person(lambda: NEXT if prompt.begun else FIRST))
    finally:
        readline.write_history_file(history)


def remembered(path: Path) -> Path:
    """The questions of earlier prompts, in a file that only its owner can read."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    path.touch(mode=0o600)
    with suppress(OSError):
        readline.read_history_file(path)
    readline.set_history_length(MOST_HISTORY)
    return path


def lines_of_a_pipe() -> Iterator[str | None]:
    yield from (line.rstrip("\n") for line in sys.stdin)


def lines_of_a_person(prompt: Callable[[], str]) -> Iterator[str | None]:
    """Ends with Ctrl-D; a Ctrl-C is a None."""
    while True:
        try:
            yield input(prompt())
        except KeyboardInterrupt:
            print()
            yield None
        except EOFError:
            print()
            return


@dataclass(slots=True)
class Prompt:
    """What was typed so far, and how answers are shown."""

    lake: Lake
    limits: Limits
    form: Format
    is_watched: bool
    begun: list[str] = field(default_factory=list)
    """The lines of a question that has not ended yet."""

    def run(self, lines: Iterator[str | None]) -> None:
        """Until the lines end or one says so; an archive that went away is looked for again with the next question."""
        while (first := self.next_question(lines)) is not None:
            try:
                with reached(self.lake, first=first, say=waiting) as asked:
                    self._ask_all(first, asked=asked, lines=lines)
                return
            except HooklakeError as error:
                self._tell(error)

    def _ask_all(self, sql: str | None, *, asked: Asked, lines: Iterator[str | None]) -> None:
        """Raises Unavailable when whoever is asked went away."""
        while sql is not None:
            try:
                self._ask(sql, asked=asked)
            except (ConfigError, QueryCancelled) as error:
                self._tell(error)
            except KeyboardInterrupt:
                print("cancelled")
            sql = self.next_question(lines)

    def _ask(self, sql: str, *, asked: Asked) -> None:
        began = time.monotonic()
        with waiting(f"asking {asked.name}"):
            answer = asked.answer(Question(sql, self.limits))
        write(answer, form=self.form, output=None)
        if self.is_watched:
            print(f"({len(answer.rows)} rows, {time.monotonic() - began:.2f} s)")

    def next_question(self, lines: Iterator[str | None]) -> str | None:
        """None at the end."""
        self.begun = []
        for line in lines:
            if line is None:
                self.begun = []
            elif not self.begun and line.strip().startswith("\\"):
                if line.strip() == "\\q":
                    return None
                self._command(line.split())
            elif self.begun or line.strip():
                self.begun.append(line)
                if line.rstrip().endswith(";"):
                    return "\n".join(self.begun)
        # A pipe may forget the last semicolon; a person who left did not mean the question.
        return "\n".join(self.begun) if self.begun and not self.is_watched else None

    def _command(self, words: list[str]) -> None:
        try:
            match words:
                case ["\\d"]:
                    show(listed(self.lake))
                case ["\\d", name] if name in known():
                    show_columns(next(one for one in listed(self.lake) if one.name == name))
                case ["\\d", name]:
                    raise ConfigError(f"there is no table {name!r}: there are {', '.join(known())}")
                case ["\\f", name] if name in (Format.TABLE, Format.JSON, Format.CSV):
                    self.form = Format(name)
                case _:
                    print(HELP)
        except HooklakeError as error:
            self._tell(error)

    def _tell(self, error: HooklakeError) -> None:
        if not self.is_watched:
            raise error
        Console(stderr=True, highlight=False, soft_wrap=True).print(str(error), markup=False)


def known() -> list[str]:
    return [table.name for table in KNOWN_TABLES] + list(views())


if __name__ == "__main__":
    run(app)
