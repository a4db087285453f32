"""The worker that never parts with a processor: whoever overstays keeps its process.

Run as `python -m tests.faults.broken.worker_waits_for_ever` in the place of `python -m processors`.
"""

from __future__ import annotations

import sys

from infra.running.cli import run
from processors import __main__ as parent
from processors import child
from processors.leases import Hand, Running

HERE = "tests.faults.broken.worker_waits_for_ever"


def nobody_overstays(self: Hand, *, now: float, grace_s: float) -> list[Running]:
    return []


if __name__ == "__main__":
    if "--ops-fd" in sys.argv:
        Hand.overstaying = nobody_overstays  # type: ignore[method-assign]
        run(child.app)
    parent.CHILD_MODULE = HERE
    run(parent.app)
