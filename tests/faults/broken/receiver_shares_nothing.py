"""The receiver that gives all its connections to whoever opens them first: one address keeps everybody else out.

Run as `python -m tests.faults.broken.receiver_shares_nothing` in the place of `python -m ingest.child`.
"""

from __future__ import annotations

from infra.running.cli import run
from infra.running.shares import Shares
from ingest.child import cli

counted = Shares.enter


def entered(self: Shares, address: str) -> int:
    counted(self, address)
    return 0


if __name__ == "__main__":
    Shares.enter = entered  # type: ignore[method-assign]
    run(cli)
