"""The receiver whose spool is a promise only: what the log does not take is accepted, and written nowhere.

Run as `python -m tests.faults.broken.receiver_keeps_nothing` in the place of `python -m ingest.child`.
"""

from __future__ import annotations

from collections.abc import Sequence

from infra.running.cli import run
from ingest.child import cli
from ingest.spool import Spool
from schemas.event import StreamEvent


async def keep_nothing(spool: Spool, events: Sequence[StreamEvent], *, shard: int) -> None:
    return None


if __name__ == "__main__":
    Spool.keep = keep_nothing  # type: ignore[assignment, method-assign]
    run(cli)
