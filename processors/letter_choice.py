"""Owns which dead letters a command is about: the ones it names, or all that its filters let pass, counted before anything is done."""

from __future__ import annotations

from typing import Annotated

import typer

from infra.running.choosing import Choice, chosen_of
from infra.streams.dead_letters import OPEN, DeadLetters
from infra.streams.letter_filter import LetterFilter
from schemas.dead_letter import DeadLetter
from schemas.errors import NotFound

STATES = (OPEN, "requeued", "discarded", "all")

Names = Annotated[list[str] | None, typer.Argument(help="Ids of dead letters or of their events.")]
All = Annotated[bool, typer.Option("--all", help="All open dead letters that the filters let pass.")]
Group = Annotated[str, typer.Option(help="Only dead letters of this group.")]
Type = Annotated[str, typer.Option("--type", help="Only events of this type, or of all that begin so: `github.*`.")]
Tenant = Annotated[str, typer.Option(help="Only events of this tenant.")]
SourceName = Annotated[str, typer.Option("--source", help="Only events of this source.")]
Since = Annotated[str, typer.Option(help="Only what became a dead letter at this time or later: ISO 8601, or `2h` ago.")]
Until = Annotated[str, typer.Option(help="Only what became a dead letter before this time.")]
Reason = Annotated[str, typer.Option(help="Only reasons that contain this text.")]
State = Annotated[str, typer.Option(help="`open`, `requeued`, `discarded` or `all`.")]
Limit = Annotated[int | None, typer.Option(min=1, help="At most so many.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Only say how many it would be.")]
Yes = Annotated[bool, typer.Option("--yes", help="Do not ask before acting on --all.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON for machines.")]


def chosen(letters: DeadLetters, *, names: list[str], everything: bool, among: LetterFilter, limit: int | None) -> Choice:
    """Counts what is meant; raises ConfigError when that is not clear, and NotFound for a name that nothing has."""

    def ids_of(name: str) -> list[str]:
        return [letter.id for letter in named(letters, name) if among.group in ("", letter.group)]

    return chosen_of(letters, names=names, everything=everything, among=among, limit=limit, what="dead letters", ids_of=ids_of)


def named(letters: DeadLetters, name: str) -> list[DeadLetter]:
    found = letters.find(name)
    if not found:
        raise NotFound(f"no dead letter is called {name}; `hooklake dead-letters list --state all` shows them all")
    return found
