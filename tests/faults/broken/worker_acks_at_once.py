"""The worker that acks what it reads, before it has run it: what it has in hand when it dies is gone.

Run as `python -m tests.faults.broken.worker_acks_at_once` in the place of `python -m processors.child`.
"""

from __future__ import annotations

from infra.running.cli import run
from infra.streams.reading import GroupReader, Lease
from processors.child import app

really_read = GroupReader.read


async def read_and_ack(self: GroupReader, *, budget: int, block_ms: int) -> list[Lease]:
    found = await really_read(self, budget=budget, block_ms=block_ms)
    for lease in found:
        await self._pipeline.call("XACK", lease.stream, self.group, lease.entry_id)
    return found


if __name__ == "__main__":
    GroupReader.read = read_and_ack  # type: ignore[method-assign]
    run(app)
