"""Owns acting on many things that a person has chosen: counted first, asked about on a terminal, one after the other behind a bar."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TimeRemainingColumn


@dataclass(frozen=True, slots=True)
class Choice:
    """How many things are meant, and their ids as often as they are asked for: they are not kept in memory."""

    count: int
    ids: Callable[[], Iterator[str]]


def choice_of(ids: Callable[[], Iterator[str]]) -> Choice:
    return Choice(sum(1 for _ in ids()), ids)


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
