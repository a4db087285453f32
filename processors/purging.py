"""Owns `hooklake groups purge` and `groups purges`: dropping what waits for a group, and who has done so."""

from __future__ import annotations

import sys
from dataclasses import asdict
from typing import Annotated

import orjson
import typer
from rich.table import Table
from rich.text import Text

from infra.running.moments import operator_name
from infra.running.screen import table_console
from infra.settings import check_name, load_settings
from infra.streams.keys import ARCHIVE_GROUP
from infra.streams.purging import Backlog, Purge, Purging
from schemas.errors import ConfigError, NotFound

Json = Annotated[bool, typer.Option("--json", help="Print JSON for machines.")]


def purge(
    group: Annotated[str, typer.Argument(help="The group's name.")],
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what would be dropped.")] = False,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
    as_json: Json = False,
) -> None:
    """Drops everything that waits for a group: it goes on with what arrives from now on. A record keeps who did so, and how much went.

    Other groups and the archive are not touched, and dead letters stay. Exits with 1 when there is no such group.
    """
    check_name(group, at="GROUP")
    if group == ARCHIVE_GROUP:
        raise ConfigError("the group archive cannot be purged: what it has not committed would never be archived; nothing was dropped")
    settings = load_settings()
    purging = Purging.open(settings.log, home=settings.home)
    try:
        found, left = _known(purging.count(group), group=group), None
        if not dry_run and (yes or _agreed(group, found=found)):
            found = _known(purging.purge(group, by=operator_name()), group=group)
            left = _known(purging.count(group), group=group)
    finally:
        purging.close()
    print(_as_json(group, found=found, left=left) if as_json else sentence(group, found=found, left=left))


def purges(as_json: Json = False) -> None:
    """Lists who has purged groups of this log, when, and how much went."""
    settings = load_settings()
    purging = Purging.open(settings.log, home=settings.home)
    try:
        found = purging.history()
    finally:
        purging.close()
    if as_json:
        sys.stdout.write(orjson.dumps([asdict(one) for one in found], option=orjson.OPT_INDENT_2).decode() + "\n")
    else:
        table_console().print(_table(found) if found else "no group was ever purged")


def sentence(group: str, *, found: Backlog, left: Backlog | None) -> str:
    """What was dropped and what waits now; or what would be dropped. Pure."""
    if left is None:
        return f"of group {group} would be dropped: {described(found)}"
    return f"of group {group} was dropped: {described(found)}; now there are: {described(left)}"


def described(backlog: Backlog) -> str:
    undelivered = "an unknown number" if backlog.undelivered is None else backlog.undelivered
    what = f"{undelivered} not yet delivered, {backlog.pending} in work, {backlog.waiting} waiting retries"
    return what + (f", {backlog.parked} parked" if backlog.parked else "") + (f", {backlog.owed} owed" if backlog.owed else "")


def _known(found: Backlog | None, *, group: str) -> Backlog:
    if found is None:
        raise NotFound(f"there is no group {group}; `hooklake groups list` shows them all")
    return found


def _agreed(group: str, *, found: Backlog) -> bool:
    if not sys.stdin.isatty():
        raise ConfigError("purging a group cannot be undone: say --yes where nobody can be asked; nothing was dropped")
    return typer.confirm(f"{sentence(group, found=found, left=None)}. Go on?", err=True)


def _as_json(group: str, *, found: Backlog, left: Backlog | None) -> str:
    after = None if left is None else asdict(left)
    return orjson.dumps({"group": group, "purged": left is not None, "before": asdict(found), "after": after}).decode()


def _table(found: list[Purge]) -> Table:
    table = Table("when", "group", "by", "dropped")
    for one in found:
        table.add_row(f"{one.at:%Y-%m-%d %H:%M:%S} UTC", one.group, Text(one.by), described(one.dropped))
    return table
