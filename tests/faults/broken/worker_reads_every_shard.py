"""The worker that reads shards which another one holds: events of one key then run in several workers at once.

Run as `python -m tests.faults.broken.worker_reads_every_shard` in the place of `python -m processors`.
"""

from __future__ import annotations

import sys

from infra.running.cli import run
from infra.streams.holding import ShardHolds
from processors import __main__ as parent
from processors import child

HERE = "tests.faults.broken.worker_reads_every_shard"


async def hold(self: ShardHolds, shard: int, *, ttl_ms: int) -> bool:
    return True


async def join(self: ShardHolds, *, ttl_ms: int) -> int:
    return 1


if __name__ == "__main__":
    if "--ops-fd" in sys.argv:
        ShardHolds.hold = hold  # type: ignore[method-assign]
        ShardHolds.join = join  # type: ignore[method-assign]
        run(child.app)
    parent.CHILD_MODULE = HERE
    run(parent.app)
