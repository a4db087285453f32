"""The receiver whose spool writes and does not sync: what it accepted is in memory when the power goes.

Run as `python -m tests.faults.broken.receiver_syncs_nothing` in the place of `python -m ingest.child`.
"""

from __future__ import annotations

import os

from infra.running.cli import run
from ingest.child import cli


def nothing(_descriptor: int) -> None:
    return None


if __name__ == "__main__":
    os.fdatasync = os.fsync = nothing  # type: ignore[assignment]
    run(cli)
