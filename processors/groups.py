"""Owns `hooklake groups`: which consumer groups the log has, what their processors wrote, and removing one with all it has."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import asdict
from typing import Annotated, Any

import orjson
import typer
from rich.table import Table
from rich.text import Text

from infra.running.cli import run
from infra.running.screen import table_console
from infra.settings import check_name, load_settings
from infra.streams.group_removal import GroupRemoval, Standing
from infra.streams.keys import ARCHIVE_GROUP
from infra.streams.losses import read_losses
from infra.streams.once import OnceReader
from infra.streams.overview import GroupState, read_overview
from processors.purging import purge, purges
from schemas.errors import ConfigError, GroupInUse, NotFound

LIVES_MS = 60_000
"""A group that showed a sign of life within this time is in use."""

app = typer.Typer(
    add_completion=False, no_args_is_help=True, help="Lists consumer groups, shows what they wrote, and purges or removes one."
)

Json = Annotated[bool, typer.Option("--json", help="Print JSON for machines.")]


@app.command("list")
def list_groups(as_json: Json = False) -> None:
    """Lists the groups of the log, how far behind they are, and when a worker of theirs last said that it lives."""
    settings = load_settings()
    groups = read_overview(settings.log, home=settings.home).groups
    if as_json:
        sys.stdout.write(orjson.dumps([asdict(state) for state in groups], option=orjson.OPT_INDENT_2).decode() + "\n")
    else:
        table_console().print(_table(groups) if groups else "no groups")


@app.command()
def remove(
    group: Annotated[str, typer.Argument(help="The group's name.")],
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what would be dropped.")] = False,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
    force: Annotated[
        bool, typer.Option("--force", help="Remove it although it is in use; a worker that still runs makes it anew.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Removes a group with its place on every stream, its retries, its entry in the registry and what it wrote through delivery.once;
    its dead letters stay.

    Exits with 1 when there is no such group, or when it is in use.
    """
    check_name(group, at="GROUP")
    if group == ARCHIVE_GROUP:
        raise ConfigError("the group archive cannot be removed: what it has not committed would be trimmed and lost; nothing was removed")
    settings, least_idle_ms = load_settings(), 0 if force else LIVES_MS
    removal = GroupRemoval.open(settings.log, home=settings.home)
    try:
        found = refused(removal.count(group, least_idle_ms=least_idle_ms), group=group)
        goes_on = not dry_run and (yes or _agreed(group, found=found))
        if goes_on:
            found = refused(removal.remove(group, least_idle_ms=least_idle_ms), group=group)
    finally:
        removal.close()
    print(_as_json(group, found=found, removed=goes_on) if as_json else sentence(group, found=found, removed=goes_on))


@app.command()
def once(group: Annotated[str, typer.Argument(help="The group's name.")], as_json: Json = False) -> None:
    """Shows what the processors of a group have written through delivery.once, all shards together."""
    check_name(group, at="GROUP")
    settings = load_settings()
    reader = OnceReader.open(settings.log, home=settings.home, group=group)
    try:
        written = read_written(reader)
    finally:
        reader.close()
    if as_json:
        sys.stdout.write(orjson.dumps(written, option=orjson.OPT_INDENT_2 | orjson.OPT_SORT_KEYS).decode() + "\n")
    else:
        table_console().print(_written_table(written) if any(written.values()) else f"group {group} has written nothing")


def read_written(reader: OnceReader) -> dict[str, dict[str, Any]]:
    """By kind and name: fields with their counts or values, or a sorted list of members."""
    written: dict[str, dict[str, Any]] = {"counts": {}, "values": {}, "members": {}}
    reads: dict[str, Callable[[str], Any]] = {
        "counts": reader.counts, "values": reader.values, "members": lambda name: sorted(reader.members(name)),
    }  # fmt: skip
    for kind, name in reader.names():
        written[kind][name] = reads[kind](name)
    return written


def _written_table(written: dict[str, dict[str, Any]]) -> Table:
    table = Table("kind", "name", "field or member", "value")
    for kind, names in written.items():
        for name, found in names.items():
            rows = sorted(found.items()) if isinstance(found, dict) else [(member, "") for member in found]
            for field, value in rows:
                table.add_row(kind, name, Text(field), Text(str(value)))
    return table


@app.command()
def lost(group: Annotated[str, typer.Argument(help="The group's name.")], as_json: Json = False) -> None:
    """Names the entries that were gone from the log before the group came to them; the archive has those that it had taken by then."""
    check_name(group, at="GROUP")
    settings = load_settings()
    losses = read_losses(settings.log, home=settings.home, group=group)
    if as_json:
        sys.stdout.write(orjson.dumps([asdict(loss) for loss in losses], option=orjson.OPT_INDENT_2).decode() + "\n")
        return
    table = Table("shard", "stream", "what", "noticed")
    for loss in losses:
        table.add_row(str(loss.shard), loss.stream, str(loss), f"{loss.noticed_at:%Y-%m-%d %H:%M:%S} UTC")
    table_console().print(table if losses else f"group {group} has lost nothing")


app.command()(purge)
app.command()(purges)


def refused(found: Standing, *, group: str) -> Standing:
    """The same, unless there is nothing to remove or somebody uses it: raises NotFound, GroupInUse. Pure."""
    if found.status == "unknown":
        raise NotFound(f"there is no group {group}; `hooklake groups list` shows them all")
    if found.status == "alive":
        seconds = (found.idle_ms or 0) / 1000
        raise GroupInUse(f"group {group} was in use {seconds:.0f} s ago: stop its workers and wait a minute, or say --force")
    return found


def sentence(group: str, *, found: Standing, removed: bool) -> str:
    undelivered = "an unknown number" if found.undelivered is None else found.undelivered
    what = f"{undelivered} not yet delivered, {found.pending} in work, {found.waiting} waiting retries"
    what += f", {found.parked} parked" if found.parked else ""
    what += f", {found.owed} owed" if found.owed else ""
    if found.written:
        what += f", what it wrote through delivery.once ({', '.join(found.written)})"
    return f"group {group} is removed, and with it: {what}" if removed else f"group {group} would be removed, and with it: {what}"


def _agreed(group: str, *, found: Standing) -> bool:
    if not sys.stdin.isatty():
        raise ConfigError("removing a group cannot be undone: say --yes where nobody can be asked; nothing was removed")
    return typer.confirm(f"{sentence(group, found=found, removed=False)}. Go on?", err=True)


def _as_json(group: str, *, found: Standing, removed: bool) -> str:
    counts = {
        "undelivered": found.undelivered,
        "pending": found.pending,
        "waiting": found.waiting,
        "parked": found.parked,
        "owed": found.owed,
    }
    return orjson.dumps({"group": group, "removed": removed, **counts, "written": found.written}).decode()


def _table(groups: list[GroupState]) -> Table:
    table = Table("group", "kind", "not yet delivered", "in work", "parked", "owed", "last sign of life")
    for state in groups:
        undelivered = "unknown" if state.undelivered is None else str(state.undelivered)
        seen = "-" if state.idle_ms is None or state.group == ARCHIVE_GROUP else f"{state.idle_ms / 1000:.0f} s ago"
        table.add_row(state.group, state.kind, undelivered, str(state.pending), str(state.parked), str(state.owed), seen)
    return table


if __name__ == "__main__":
    run(app)
