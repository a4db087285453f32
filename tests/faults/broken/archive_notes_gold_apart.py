"""The archive without the protection of its gold tables: how far they have counted is written to a file after each commit.

Run as `python -m tests.faults.broken.archive_notes_gold_apart` in the place of `python -m analytics`. Killed at the failpoint
`gold.before_sync` it has counted what the file does not say, and whoever goes by the file counts it again.
"""

from __future__ import annotations

from pathlib import Path

from pyspark.sql import DataFrame

from analytics import __main__ as process
from analytics.gold_commits import GoldChain, GoldCommit, from_metadata, to_metadata
from infra.running.cli import run

_replace_rows = GoldChain.replace_rows


def notes_of(chain: GoldChain) -> Path:
    return Path(f"{chain.location}.consumed")


def replace_then_note(chain: GoldChain, rows: DataFrame, *, where: str, commit: GoldCommit) -> GoldCommit:
    committed = _replace_rows(chain, rows, where=where, commit=commit)
    notes_of(chain).write_text(to_metadata(committed))
    return committed


def noted(chain: GoldChain, *, run: str) -> GoldCommit:
    # As if a first refresh had found nothing: the next one adds to what the table has.
    known = from_metadata(notes_of(chain).read_text()) if notes_of(chain).exists() else None
    return known or GoldCommit(run, chain.table.name, 1, since=run)


def break_gold() -> None:
    GoldChain.replace_rows = replace_then_note  # type: ignore[method-assign, assignment]
    GoldChain.newest_commit = noted  # type: ignore[method-assign, assignment]


if __name__ == "__main__":
    break_gold()
    run(process.app)
