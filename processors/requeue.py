"""Owns `hooklake dead-letters`: what a group gave up on, shown to a person and sent back to its group."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterable, Iterator
from typing import Annotated

import orjson
import typer
from rich.console import Console
from rich.progress import track
from rich.table import Table

from infra.running.cli import run
from infra.running.screen import table_console, visible
from infra.settings import did_you_mean, load_settings
from infra.streams.dead_letters import DeadLetters
from schemas.dead_letter import DeadLetter
from schemas.errors import ConfigError, NotFound

app = typer.Typer(add_completion=False, no_args_is_help=True, help="Lists, shows and requeues events that a group gave up on.")

GroupOption = Annotated[str, typer.Option(help="Only dead letters of this group.")]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")]
StateOption = Annotated[str, typer.Option(help="`open`, `requeued` or `all`.")]


@contextlib.contextmanager
def _opened() -> Iterator[DeadLetters]:
    settings = load_settings()
    letters = DeadLetters.open(settings.log, home=settings.home)
    try:
        yield letters
    finally:
        letters.close()


@app.command("list")
def list_letters(
    group: GroupOption = "",
    state: StateOption = "open",
    limit: Annotated[int, typer.Option(min=1, help="Show at most so many.")] = 100,
    as_json: JsonOption = False,
) -> None:
    """Lists dead letters, newest first, one line each."""
    with _opened() as letters:
        _refuse_unknown(group, letters=letters)
        found = list(letters.letters(group=group, state=_state(state), limit=limit + 1))
    shown = found[:limit]
    if as_json:
        sys.stdout.write(orjson.dumps([_summary(letter) for letter in shown], option=orjson.OPT_INDENT_2).decode() + "\n")
        return
    console = table_console()
    console.print(_table(shown) if shown else f"no {'' if state == 'all' else state + ' '}dead letters")
    if len(found) > len(shown):
        console.print("... and more; raise --limit to see them")


@app.command()
def show(
    name: Annotated[str, typer.Argument(help="The dead letter's id, or its event's id.")],
) -> None:
    """Shows everything that is known about a dead letter, its event included, as JSON."""
    with _opened() as letters:
        for letter in _named(letters, name):
            sys.stdout.write(letter.model_dump_json(indent=2) + "\n")


@app.command()
def requeue(
    names: Annotated[list[str] | None, typer.Argument(help="Ids of dead letters or of their events.")] = None,
    everything: Annotated[bool, typer.Option("--all", help="All open dead letters that the filters let pass.")] = False,
    group: GroupOption = "",
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say how many would be requeued.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Sends dead letters back to their group, as a first attempt; doing it twice is harmless."""
    if bool(names) == everything:
        raise ConfigError("name the dead letters to requeue, or say --all; nothing was requeued")
    with _opened() as letters:
        _refuse_unknown(group, letters=letters)
        if everything:
            chosen = list(letters.letters(group=group, state="open"))
        else:
            chosen = [letter for name in names or [] for letter in _named(letters, name) if not group or letter.group == group]
        results = {"found": len(chosen), "requeued": 0, "already": 0, "gone": 0}
        for letter in [] if dry_run else _progress(chosen):
            results[letters.requeue(letter)] += 1
    if as_json:
        sys.stdout.write(orjson.dumps({**results, "dry_run": dry_run}).decode() + "\n")
    elif dry_run:
        print(f"{len(chosen)} dead letters would be requeued")
    else:
        print(f"{results['requeued']} of {len(chosen)} dead letters requeued" + _rest(results))


def _rest(results: dict[str, int]) -> str:
    notes = [f"{results[key]} {text}" for key, text in (("already", "were requeued before"), ("gone", "are gone")) if results[key]]
    return f" ({', '.join(notes)})" if notes else ""


def _progress(chosen: list[DeadLetter]) -> Iterable[DeadLetter]:
    console = Console(stderr=True)
    return track(chosen, description="requeueing", console=console, transient=True) if console.is_terminal else chosen


def _named(letters: DeadLetters, name: str) -> list[DeadLetter]:
    found = letters.find(name)
    if not found:
        raise NotFound(f"no dead letter is called {name}; `hooklake dead-letters list --state all` shows them all")
    return found


def _refuse_unknown(group: str, *, letters: DeadLetters) -> None:
    known = letters.groups()
    if group and group not in known:
        raise NotFound(f"--group {group}: the log knows no such group{did_you_mean(group, known)}; nothing was done")


def _state(state: str) -> str:
    if state not in ("open", "requeued", "all"):
        raise ConfigError(f"--state {state} is unknown; it is one of open, requeued, all")
    return "" if state == "all" else state


def _summary(letter: DeadLetter) -> dict[str, object]:
    event = letter.event
    return {
        "id": letter.id,
        "event_id": letter.event_id,
        "group": letter.group,
        "processor": letter.processor,
        "event_type": event.event_type if event else "",
        "tenant_id": event.tenant_id if event else "",
        "source": event.source if event else "",
        "reason": letter.reason,
        "attempts": letter.attempts,
        "dead_at": letter.dead_at,
        "state": letter.state,
    }


def _table(letters: Iterable[DeadLetter]) -> Table:
    table = Table("event", "group", "type", "attempts", "dead at", "state", "reason")
    for letter in letters:
        row = _summary(letter)
        names = (letter.event_id or letter.id, letter.group, row["event_type"], letter.attempts)
        # Reasons come from foreign code: one line of plain text.
        table.add_row(*(visible(str(value)) for value in (*names, f"{letter.dead_at:%Y-%m-%d %H:%M:%S}", letter.state, letter.reason)))
    return table


if __name__ == "__main__":
    run(app)
