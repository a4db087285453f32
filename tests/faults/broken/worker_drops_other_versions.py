"""The worker that acks what it cannot read: events of another release's version are gone.

Run as `python -m tests.faults.broken.worker_drops_other_versions` in the place of `python -m processors`.
"""

from __future__ import annotations

import sys

from infra.running.cli import run
from infra.streams.reading import Lease
from infra.streams.settle import Ack
from processors import __main__ as parent
from processors import attempts, child

HERE = "tests.faults.broken.worker_drops_other_versions"


def dropped(lease: Lease) -> Ack:
    return Ack()


if __name__ == "__main__":
    if "--ops-fd" in sys.argv:
        attempts.parked = dropped  # type: ignore[assignment, attr-defined]
        run(child.app)
    parent.CHILD_MODULE = HERE
    run(parent.app)
