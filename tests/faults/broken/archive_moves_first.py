"""The archive without its most important protection: it moves the group and trims the log before the commit.

Run as `python -m tests.faults.broken.archive_moves_first` in the place of `python -m analytics`. Killed at the failpoint
`archive.before_commit` it has forgotten what it was about to write: the entries are trimmed and no row has them.
"""

from __future__ import annotations

from pyspark.sql import DataFrame

from analytics import __main__ as process
from analytics import archive
from analytics.commits import Commit, CommittedTable
from infra.failpoints import reach
from infra.running.cli import run
from infra.streams.ranges import ArchiveLog


def move_then_commit(log: ArchiveLog, table: CommittedTable, *, rows: DataFrame, commit: Commit, **_: object) -> Commit:
    # Read before the log is trimmed, so that without a kill nothing is missing: only the order is broken.
    kept = rows.localCheckpoint(eager=True)
    archive.move(log, commit)
    log.trim()
    reach("archive.before_commit")
    return table.append(kept, commit=commit)


if __name__ == "__main__":
    archive.commit_then_move = move_then_commit
    run(process.app)
