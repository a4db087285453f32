"""Owns `hooklake replay`: archived events into one group again, counted first, as fast as the group takes them, and resumable."""

from __future__ import annotations

import logging
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from typing import Annotated

import orjson
import typer
from pyspark.sql import functions as F
from rich.console import Console

from analytics.catalog import Lake
from analytics.counting import Counted, count
from analytics.history import newest_batch, wait_until_archived
from analytics.query import waiting
from analytics.reaching import refuse_empty
from analytics.replay_listing import bar, facts_of, far, say_counted, say_done, say_replays, whose_table
from analytics.replayer import Plan, Replayer, same_unfinished
from analytics.selection import Selection
from analytics.session import quick_session, stop_session
from analytics.settings import ArchiveSettings, table_location
from analytics.statements import harden, reading_rows_by, refuse_all_but_a_condition
from analytics.tables import EVENTS
from infra.failpoints import reach
from infra.running.choosing import is_terminal
from infra.running.cli import run
from infra.running.moments import operator_name, parse_moment
from infra.settings import Settings, check_name, load_settings, set_environment
from infra.streams.history import Histories
from infra.streams.keys import ARCHIVE_GROUP
from infra.streams.replays import Replay, Replays
from schemas.errors import ConfigError, NotFound, Unavailable

app = typer.Typer(add_completion=False, invoke_without_command=True)

Json = Annotated[bool, typer.Option("--json", help="Print JSON for machines.")]


@app.callback()
def main(
    ctx: typer.Context,
    group: Annotated[str, typer.Option(help="The group that is given the events.")] = "",
    since: Annotated[str, typer.Option(help="Received at this time or later: 2026-01-31T12:00:00Z, or 2h for two hours ago.")] = "",
    until: Annotated[str, typer.Option(help="Received before this time.")] = "",
    tenant: Annotated[list[str] | None, typer.Option(help="Of this tenant; may be repeated.")] = None,
    source: Annotated[list[str] | None, typer.Option(help="From this source; may be repeated.")] = None,
    kind: Annotated[list[str] | None, typer.Option("--type", help="Of this type, or of all types like github.*; may be repeated.")] = None,
    event: Annotated[list[str] | None, typer.Option(help="The event with this id; may be repeated.")] = None,
    where: Annotated[str, typer.Option(help="A condition in SQL over the columns of events, as it would stand after WHERE.")] = "",
    new_group: Annotated[
        bool, typer.Option("--new-group", help="Make the group: it is given what is archived, and then goes on with what arrives.")
    ] = False,
    rate: Annotated[float | None, typer.Option(min=0.1, help="Events per second at most.")] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only count what would be replayed.")] = False,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
    resume: Annotated[str, typer.Option(metavar="ID", help="Continue a replay that was interrupted.")] = "",
    as_json: Json = False,
) -> None:
    """Hands archived events to one group again, through a stream that no other group reads: the same events, marked as a replay.

    Without a choice all events are meant. What is replayed is counted first; a replay that was interrupted is continued with --resume,
    and hands no event twice. Exits with 3 when the log or the table is unavailable, with 1 when there is no such replay.
    """
    if ctx.invoked_subcommand is not None:
        return
    now = datetime.now(UTC)
    selection = Selection(
        since=parse_moment(since, now=now, option="--since") if since else None,
        until=parse_moment(until, now=now, option="--until") if until else None,
        tenants=tuple(tenant or ()),
        sources=tuple(source or ()),
        types=tuple(kind or ()),
        events=tuple(event or ()),
        where=where,
    )
    settings = load_settings()
    with _replays(settings) as replays:
        if resume:
            _resume(_known(replays, name=resume), settings=settings, replays=replays, as_json=as_json)
            return
        refuse_group(group, known=replays.groups(), is_new=new_group)
        _refuse_same(replays, group=group, selection=selection, is_new=new_group)
        plan = Plan(selection, rate=rate, by=operator_name(), started_at=now.isoformat(), is_counted=not new_group)
        with _opened(settings, replays=replays) as replayer:
            counted = _counted(replayer, plan=plan)
            may_be_empty = new_group  # Then it only begins with what arrives.
            if dry_run or not (counted.events or may_be_empty) or not (yes or _agreed(counted, group=group)):
                say_counted(counted, group=group, as_json=as_json)
                return
            begun = replays.begin(group, about=(plan if new_group else plan.with_counted(counted)).to_json())
            _carry_out(begun, replayer=replayer, as_json=as_json)


@app.command("list")
def list_replays(as_json: Json = False) -> None:
    """Lists the replays of all groups, the newest of each group first, and how far each has come."""
    with _replays(load_settings()) as replays:
        found = replays.all()
    say_replays(found, as_json=as_json)


@app.command()
def cancel(replay: Annotated[str, typer.Argument(help="The replay's id.")], as_json: Json = False) -> None:
    """Ends a replay: nothing more is handed of it. What the group was given stays; `hooklake groups purge` drops that."""
    with _replays(load_settings()) as replays:
        found = _known(replays, name=replay)
        replays.forget(found)
    sentence = f"replay {found.id} is cancelled: {far(found)} were handed to group {found.group}"
    print(orjson.dumps(facts_of(found)).decode() if as_json else sentence)


@contextmanager
def _replays(settings: Settings) -> Iterator[Replays]:
    replays = Replays.open(settings.log, home=settings.home)
    try:
        yield replays
    finally:
        replays.close()


def refuse_group(group: str, *, known: list[str], is_new: bool) -> None:
    """Raises ConfigError for a group that cannot be given a replay. Pure."""
    if not group:
        raise ConfigError("say which group is given the events, with --group NAME; `hooklake groups list` shows them all")
    check_name(group, at="--group")
    if group == ARCHIVE_GROUP:
        raise ConfigError("the group archive has all events already: choose a group of workers")
    if is_new and group in known:
        raise ConfigError(f"there is a group {group} already: leave --new-group out, or `hooklake groups remove {group}` before")
    if not is_new and group not in known:
        raise ConfigError(
            f"there is no group {group}; `hooklake groups list` shows them all, and --new-group makes one that begins with the history"
        )


def _refuse_same(replays: Replays, *, group: str, selection: Selection, is_new: bool) -> None:
    found = replays.of(group)
    if is_new:  # Of a group that was never made: somebody was killed before that.
        for orphan in found:
            replays.forget(orphan)
    elif (same := same_unfinished(found, selection=selection)) is not None:
        raise ConfigError(
            f"replay {same.id} of the same events is not finished ({far(same)}): continue it with `hooklake replay --resume {same.id}`, "
            f"or end it with `hooklake replay cancel {same.id}`"
        )


def _known(replays: Replays, *, name: str) -> Replay:
    if (found := replays.find(name)) is None:
        raise NotFound(f"there is no replay {name}; `hooklake replay list` shows them all")
    return found


@contextmanager
def _opened(settings: Settings, *, replays: Replays) -> Iterator[Replayer]:
    section = settings.section("archive", ArchiveSettings)
    refuse_empty(Lake(section, settings.home))
    logging.disable()  # What pyspark would log is in the sentence that we print.
    set_environment({"TZ": "UTC"})
    time.tzset()
    with waiting("starting Spark"):
        spark = quick_session(with_a_place_for_each(section, shards=settings.log.shards), home=settings.home)
    try:
        harden(spark)
        location = table_location(section, home=settings.home, table=EVENTS.name)
        yield Replayer(spark, location, settings.log, settings.home, replays)
    finally:
        stop_session(spark)


def with_a_place_for_each(section: ArchiveSettings, *, shards: int) -> ArchiveSettings:
    """On one machine, a place for each shard's task: they wait for the group most of the time, and none should wait for another. Pure."""
    return section.model_copy(update={"master": f"local[{max(2, shards)}]"}) if section.master.startswith("local[") else section


def _counted(replayer: Replayer, *, plan: Plan) -> Counted:
    with waiting("counting"):
        if plan.selection.where:
            replayer.rows(Selection()).createOrReplaceTempView(EVENTS.name)
            refuse_all_but_a_condition(replayer.spark, condition=plan.selection.where, table=EVENTS.name)
        with reading_rows_by(plan.selection.where, location=replayer.location):
            return count(replayer.rows(plan.selection), shards=replayer.log.shards)


def _resume(found: Replay, *, settings: Settings, replays: Replays, as_json: bool) -> None:
    if found.is_done:
        say_done(found, waiting=replays.waiting(found.group), as_json=as_json)
        return
    with _opened(settings, replays=replays) as replayer:
        _carry_out(found, replayer=replayer, as_json=as_json)


def _carry_out(begun: Replay, *, replayer: Replayer, as_json: bool) -> None:
    """Runs it behind a bar; whatever ends it early, the sentence says how to go on."""
    again = f"continue with `hooklake replay --resume {begun.id}`"
    try:
        begun = with_history(begun, replayer=replayer)
        with bar(begun, replays=replayer.replays):
            replayer.run(begun)
    except Unavailable as error:
        raise type(error)(f"{error}; {again}") from error
    except KeyboardInterrupt:
        print(f"hooklake: interrupted; {again}", file=sys.stderr)
        raise typer.Exit(1) from None
    found = _known(replayer.replays, name=begun.id)
    say_done(found, waiting=replayer.replays.waiting(begun.group), as_json=as_json)


def with_history(begun: Replay, *, replayer: Replayer) -> Replay:
    """Makes the group of a replay that a group begins with, and counts what came before it; every step may be repeated after a kill."""
    plan = Plan.from_json(begun.about)
    if plan.is_counted:
        return begun
    histories = Histories.open(replayer.log, home=replayer.home)
    try:
        reach("replay.before_group")
        marks = histories.begin(begun.group, replay=begun.id)
        reach("replay.after_group")
        with waiting("waiting for the archive"):
            wait_until_archived(histories, marks=marks)
        batch = newest_batch(replayer.rows(Selection()))
        marks = histories.since(marks)
    finally:
        histories.close()
    with waiting("counting"), reading_rows_by(plan.selection.where, location=replayer.location):
        rows = replayer.rows(plan.selection, marks=marks).where(F.col("batch") <= batch)
        counted = count(rows, shards=replayer.log.shards)
    plan = plan.with_counted(replace(counted, batch=batch), marks=marks)
    return replayer.replays.note(begun, about=plan.to_json())


def _agreed(counted: Counted, *, group: str) -> bool:
    """Asks where somebody can be asked; cron goes on by itself."""
    if not is_terminal():
        return True
    Console(stderr=True).print(whose_table(counted))
    return typer.confirm(f"replay {counted.events} events into group {group}?", err=True)


if __name__ == "__main__":
    run(app)
