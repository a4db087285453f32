"""Owns `hooklake upkeep`: looks after the tables now, instead of when their time comes, and prints what was done."""

from __future__ import annotations

import json
from typing import Annotated, Any

import typer
from rich.table import Table

from analytics.asking import answered
from infra.running.cli import run
from infra.running.screen import table_console
from infra.settings import load_settings

app = typer.Typer(add_completion=False)


@app.command()
def main(
    table: Annotated[str | None, typer.Option(help="Look after this table only.")] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what would be done.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Puts small files of the tables together, removes files and log entries past `archive.vacuum_after`, and prints what was done.

    The running archive does it between two batches; without one it is done here. No row is changed, and queries go on meanwhile.
    """
    result = answered(load_settings(), act="upkeep", arguments={"table": table, "dry_run": dry_run})
    if as_json:
        print(json.dumps(result, indent=2))
        return
    table_console().print(_shown(result["tables"], dry_run=dry_run))


def _shown(reports: list[dict[str, Any]], *, dry_run: bool) -> Table:
    would = "would be " if dry_run else ""
    shown = Table(
        "table",
        "files",
        "bytes",
        f"rows {would}expired",
        f"partitions {would}rewritten",
        f"files {would}removed",
        f"versions {would}forgotten",
    )
    for one in reports:
        files = one["files_before"] if dry_run else f"{one['files_before']} → {one['files_after']}"
        size = one["bytes_before"] if dry_run else f"{one['bytes_before']} → {one['bytes_after']}"
        removed = (one["expired"], len(one["rewritten"]), one["removed_files"], one["removed_versions"])
        shown.add_row(one["table"], str(files), str(size), *map(str, removed))
    return shown


if __name__ == "__main__":
    run(app)
