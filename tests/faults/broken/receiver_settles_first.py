"""The receiver that has done with what it takes out of its spool before the log has it: when it dies in between, that is gone.

Run as `python -m tests.faults.broken.receiver_settles_first` in the place of `python -m ingest.child`.
"""

from __future__ import annotations

from infra.failpoints import reach
from infra.running.cli import run
from ingest.backlog import Backlog, Batch
from ingest.child import cli
from ingest.drain import Drain

really_hand_over = Drain._hand_over


async def settle_first(drain: Drain, batch: Batch, *, backlog: Backlog) -> list[int]:
    backlog.settle(batch)
    batch.segment.path.unlink()
    reach("broken.before_append")
    return await really_hand_over(drain, batch, backlog=backlog)


if __name__ == "__main__":
    Drain._hand_over = settle_first  # type: ignore[assignment, method-assign]
    run(cli)
