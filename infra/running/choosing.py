"""Owns acting on many things that a person has chosen, dead letters or refused requests: found by name or by filters, counted first,
asked about on a terminal, one after the other behind a bar."""

from __future__ import annotations

import itertools
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TimeRemainingColumn

from infra.clock import Clock
from infra.running.moments import parse_moment
from infra.streams.letter_filter import LetterFilter
from schemas.errors import ConfigError


@dataclass(frozen=True, slots=True)
class Choice:
    """How many things are meant, and their ids as often as they are asked for: they are not kept in memory."""

    count: int
    ids: Callable[[], Iterator[str]]


def choice_of(ids: Callable[[], Iterator[str]]) -> Choice:
    return Choice(sum(1 for _ in ids()), ids)


class Kept(Protocol):
    """Where things wait for a decision."""

    def ends(self) -> Any:
        """Where it ends now: what comes later was not counted."""

    def ids(self, chosen: LetterFilter, *, ends: Any) -> Iterator[str]: ...


def filter_of(states: Sequence[str], *, since: str, until: str, state: str, **others: str) -> LetterFilter:
    """What the options say; raises ConfigError."""
    if state not in states:
        raise ConfigError(f"--state {state} is unknown; it is one of {', '.join(states)}")
    now = Clock().now()
    return LetterFilter(
        since=parse_moment(since, now=now, option="--since") if since else None,
        until=parse_moment(until, now=now, option="--until") if until else None,
        state="" if state == "all" else state,
        **others,
    )


def chosen_of(
    kept: Kept,
    *,
    names: Sequence[str],
    everything: bool,
    among: LetterFilter,
    limit: int | None,
    what: str,
    ids_of: Callable[[str], list[str]],
) -> Choice:
    """Counts what is meant: what `names` name, as `ids_of` finds it, or everything; raises ConfigError when that is not clear."""
    if bool(names) == everything:
        raise ConfigError(f"name the {what}, or say --all; nothing was done")
    if everything:
        ends = kept.ends()
        return choice_of(lambda: itertools.islice(kept.ids(among, ends=ends), limit))
    if among != LetterFilter(group=among.group, state=among.state) or limit is not None:
        raise ConfigError(f"filters choose among --all, and here {what} are named; nothing was done")
    found = [one for name in names for one in ids_of(name)]
    return choice_of(lambda: iter(dict.fromkeys(found)))


def act_on(choice: Choice, *, act: Callable[[str], str], what: str) -> Counter[str]:
    """Acts on one after the other, behind a bar on a terminal; counts what each act answered."""
    console, results = Console(stderr=True), Counter[str]()
    columns = (what, BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as progress:
        task = progress.add_task(what, total=choice.count)
        for name in choice.ids():
            results[act(name)] += 1
            progress.advance(task)
    return results


def is_agreed(choice: Choice, *, verb: str, what: str) -> bool:
    """Asks where somebody can be asked; cron goes on by itself."""
    return choice.count == 0 or not is_terminal() or typer.confirm(f"{verb} {choice.count} {what}?", err=True)


def is_terminal() -> bool:
    return sys.stdin.isatty()
