"""The worker that charges a batch as one: when it fails, each of its events has failed.

Run as `python -m tests.faults.broken.worker_charges_whole_batches` in the place of `python -m processors`, and as
`... .child` in the place of `processors.child`.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

from infra.running.cli import run
from processors import __main__ as parent
from processors import batch_attempts, child

HERE = "tests.faults.broken.worker_charges_whole_batches"


def errors_of(error: BaseException | None, *, event_ids: Sequence[str]) -> list[BaseException | None]:
    return [error for _ in event_ids]


if __name__ == "__main__":
    if "--ops-fd" in sys.argv:
        batch_attempts.errors_of = errors_of  # type: ignore[attr-defined]
        run(child.app)
    parent.CHILD_MODULE = HERE
    run(parent.app)
