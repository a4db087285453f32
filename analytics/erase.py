"""Owns `hooklake erase`: counts what would go, asks for a word typed by hand, has it erased everywhere, and prints what went."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from contextlib import closing
from dataclasses import asdict
from typing import Annotated, Any

import typer
from rich.table import Table

from analytics.asking import answered
from analytics.erase_selection import Selection
from infra.running.choosing import is_terminal
from infra.running.cli import run
from infra.running.screen import table_console, visible
from infra.settings import Settings, check_name, load_settings
from infra.streams.erasing import Erasing, Erasure
from schemas.errors import ConfigError

app = typer.Typer(add_completion=False)


@app.command()
def main(
    tenant: Annotated[str, typer.Option(help="Everything of this tenant.")] = "",
    source: Annotated[str, typer.Option(help="Everything of this source; with --tenant, of that tenant's.")] = "",
    event: Annotated[str, typer.Option(help="The event with this id.")] = "",
    where: Annotated[str, typer.Option(help="Events whose rows in `events` fit this SQL condition.")] = "",
    now: Annotated[bool, typer.Option("--now", help="Remove the bytes at once; older versions of the tables cannot be read then.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only count what would go.")] = False,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
    history: Annotated[bool, typer.Option("--history", help="List who has erased what, and how much.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Erases events for ever: from every key of the log, from dead letters, quarantine and tables, and from the log's files.

    It covers what was accepted before it began. Without --now, bytes stay in files that no version of a table needs until
    `archive.vacuum_after` is over.
    """
    settings = load_settings()
    if history:
        _print_history(settings, as_json=as_json)
        return
    asked = {"tenant": tenant, "source": source, "event": event, "where": where}
    _refuse_wrong(asked)
    found = None if yes and not dry_run else answered(settings, act="erase", arguments={**asked, "dry_run": True})
    if found is not None and not as_json:
        _print(found)
    if not dry_run and (yes or _is_confirmed(tenant or source or "erase")):
        found = answered(settings, act="erase", arguments={**asked, "now": now})
        if not as_json:
            _print(found)
    if as_json:
        print(json.dumps(found, indent=2))


def _refuse_wrong(asked: Mapping[str, str]) -> None:
    for name in ("tenant", "source"):
        if asked[name]:
            check_name(asked[name], at=f"--{name}")
    Selection.of(asked)


def _is_confirmed(word: str) -> bool:
    """Typed by hand: what is erased cannot be brought back."""
    if not is_terminal():
        raise ConfigError("erasing cannot be undone, and nobody is there to be asked: say --yes; nothing was erased")
    if typer.prompt(f"This cannot be undone. Type {word} to erase", err=True) == word:
        return True
    sys.stderr.write("nothing was erased\n")
    return False


def _print(result: Mapping[str, Any]) -> None:
    shown = Table("where", "would go" if result["dry_run"] else "erased")
    for place, count in sorted(result["log"].items()):
        shown.add_row(f"log: {place}", str(count))
    for table, count in result["tables"].items():
        shown.add_row(f"table: {table}", str(count))
    console = table_console()
    console.print(shown)
    for sentence in result.get("left", []):
        console.print(f"left: {sentence}")


def _print_history(settings: Settings, *, as_json: bool) -> None:
    with closing(Erasing.open(settings.log, home=settings.home)) as log:
        found = log.history()
    if as_json:
        print(json.dumps([{**asdict(one), "at": one.at.isoformat()} for one in found], indent=2))
    else:
        table_console().print(_history_table(found) if found else "nothing was ever erased")


def _history_table(found: list[Erasure]) -> Table:
    shown = Table("when", "who", "what")
    for one in found:
        shown.add_row(one.at.isoformat(timespec="seconds"), visible(one.by), visible(", ".join(f"{k} {v}" for k, v in one.facts.items())))
    return shown


if __name__ == "__main__":
    run(app)
