"""Owns `hooklake dead-letters`: what a group gave up on, shown to a person, sent back to its group or discarded.

From cron: `python -m processors.requeue requeue --all --group G --since 1h`.

    0  done, also when there was nothing to do        1  a named letter does not exist, or one could not be requeued or discarded
    2  a setting or an argument is wrong              3  the log is unavailable, try again later: what was done stays done
"""

from __future__ import annotations

import contextlib
import sys
from collections import Counter
from collections.abc import Iterator
from functools import partial
from typing import Annotated

import typer

from infra.running.choosing import Choice, act_on, filter_of, is_agreed, is_terminal
from infra.running.cli import EXIT_FAILED, run
from infra.running.moments import operator_name
from infra.running.screen import print_json, print_list
from infra.settings import did_you_mean, load_settings
from infra.streams.dead_letters import OPEN, DeadLetters
from processors import letter_choice as options
from processors.letter_choice import STATES, chosen, named
from processors.letter_listing import summary, table
from processors.retry import storable
from schemas.errors import ConfigError, NotFound

app = typer.Typer(add_completion=False, no_args_is_help=True, help="Lists, shows, requeues and discards events that a group gave up on.")

REASON_CHARACTERS = 2000
REFUSALS = {"already": "were {done} before", "requeued": "were requeued before", "discarded": "were discarded before", "gone": "are gone"}


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
    group: options.Group = "",
    event_type: options.Type = "",
    tenant: options.Tenant = "",
    source: options.SourceName = "",
    since: options.Since = "",
    until: options.Until = "",
    reason: options.Reason = "",
    state: options.State = OPEN,
    limit: Annotated[int, typer.Option(min=1, help="Show at most so many.")] = 100,
    as_json: options.Json = False,
) -> None:
    """Lists dead letters, newest first, one line each."""
    among = filter_of(
        STATES, since=since, until=until, state=state, event_type=event_type, group=group, tenant=tenant, source=source, reason=reason
    )
    with _opened() as letters:
        _refuse_unknown(group, letters=letters)
        found = map(summary, letters.letters(chosen=among, limit=limit + 1))
        print_list(found, limit=limit, table=table, nothing=f"no {'' if state == 'all' else state + ' '}dead letters", as_json=as_json)


@app.command()
def show(
    name: Annotated[str, typer.Argument(help="The dead letter's id, or its event's id.")],
    as_json: options.Json = False,  # noqa: ARG001 - it is JSON anyway; scripts pass it to every command
) -> None:
    """Shows everything that is known about a dead letter, its event and what was decided about it included, as JSON."""
    with _opened() as letters:
        for letter in named(letters, name):
            sys.stdout.write(letter.model_dump_json(indent=2) + "\n")


@app.command()
def requeue(
    names: options.Names = None,
    everything: options.All = False,
    group: options.Group = "",
    event_type: options.Type = "",
    tenant: options.Tenant = "",
    source: options.SourceName = "",
    since: options.Since = "",
    until: options.Until = "",
    reason: options.Reason = "",
    limit: options.Limit = None,
    dry_run: options.DryRun = False,
    yes: options.Yes = False,
    as_json: options.Json = False,
) -> None:
    """Sends dead letters back to their group, as a first attempt; doing it twice is harmless.

    Exits with 1 when one could not be requeued, because it was discarded or is gone.
    """
    among = filter_of(
        STATES, since=since, until=until, state=OPEN, event_type=event_type, group=group, tenant=tenant, source=source, reason=reason
    )
    with _opened() as letters:
        _refuse_unknown(group, letters=letters)
        choice = chosen(letters, names=names or [], everything=everything, among=among, limit=limit)
        goes_on = not dry_run and (yes or not everything or is_agreed(choice, verb="requeue", what="dead letters"))
        act = partial(letters.requeue, by=operator_name())
        results = act_on(choice, act=act, what="requeueing") if goes_on else Counter[str]()
    _report(choice, results=results, done="requeued", is_dry=not goes_on, as_json=as_json)
    raise typer.Exit(EXIT_FAILED if results["gone"] or results["discarded"] else 0)


@app.command()
def discard(
    names: options.Names = None,
    because: Annotated[str, typer.Option(help="Why; it is kept with the letter.")] = "",
    everything: options.All = False,
    group: options.Group = "",
    event_type: options.Type = "",
    tenant: options.Tenant = "",
    source: options.SourceName = "",
    since: options.Since = "",
    until: options.Until = "",
    reason: options.Reason = "",
    limit: options.Limit = None,
    dry_run: options.DryRun = False,
    yes: options.Yes = False,
    as_json: options.Json = False,
) -> None:
    """Closes dead letters for good, with a record of who did so and why; nothing is deleted before its retention is over.

    Exits with 1 when one was refused, because it was requeued or discarded before, or is gone.
    """
    among = filter_of(
        STATES, since=since, until=until, state=OPEN, event_type=event_type, group=group, tenant=tenant, source=source, reason=reason
    )
    if not because.strip() and not dry_run:
        raise ConfigError("discarding needs --because TEXT, which is kept with the letter; nothing was discarded")
    with _opened() as letters:
        _refuse_unknown(group, letters=letters)
        choice = chosen(letters, names=names or [], everything=everything, among=among, limit=limit)
        if everything and not (yes or dry_run or is_terminal()):
            raise ConfigError("discarding --all cannot be undone: say --yes where nobody can be asked; nothing was discarded")
        goes_on = not dry_run and (yes or not everything or is_agreed(choice, verb="discard", what="dead letters"))
        act = partial(letters.discard, by=operator_name(), because=storable(because, most=REASON_CHARACTERS))
        results = act_on(choice, act=act, what="discarding") if goes_on else Counter[str]()
    _report(choice, results=results, done="discarded", is_dry=not goes_on, as_json=as_json)
    raise typer.Exit(EXIT_FAILED if goes_on and results["discarded"] < choice.count else 0)


def _refuse_unknown(group: str, *, letters: DeadLetters) -> None:
    if group and group not in (known := letters.groups()):
        raise NotFound(f"--group {group}: the log knows no such group{did_you_mean(group, known)}; nothing was done")


def _report(choice: Choice, *, results: Counter[str], done: str, is_dry: bool, as_json: bool) -> None:
    if as_json:
        counts = {answer: results[answer] for answer in ("requeued", "discarded", "already", "gone")}
        print_json({"found": choice.count, **counts, "dry_run": is_dry})
    elif is_dry:
        print(f"{choice.count} dead letters would be {done}")
    else:
        notes = [f"{results[answer]} {text.format(done=done)}" for answer, text in REFUSALS.items() if answer != done and results[answer]]
        print(f"{results[done]} of {choice.count} dead letters {done}" + (f" ({', '.join(notes)})" if notes else ""))


if __name__ == "__main__":
    run(app)
