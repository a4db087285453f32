"""The worker that makes the writes of `delivery.once` by itself, and acks afterwards.

Run as `python -m tests.faults.broken.worker_writes_before_it_acks` in the place of `python -m processors.child`. Killed at the
failpoint `worker.between` it has written what it will write again.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from infra.failpoints import reach
from infra.running.cli import run
from infra.streams import settle as settling
from infra.streams.keys import Keys
from infra.streams.pipelining import Pipeline
from infra.streams.reading import Lease
from infra.streams.settle import Ack, AckOnce, Decision
from processors import settler
from processors.child import app


async def settle(pipeline: Pipeline, *, keys: Keys, group: str, decisions: Sequence[Decision], **options: Any) -> list[Lease]:
    for lease, settlement in decisions:
        for write in settlement.writes if isinstance(settlement, AckOnce) else ():
            at = keys.once_key(lease.shard, group, kind=write.kind, name=write.name)
            await pipeline.call("HINCRBY", at, write.field, write.value)
    reach("worker.between")
    acks: list[Decision] = [(lease, Ack() if isinstance(chosen, AckOnce) else chosen) for lease, chosen in decisions]
    return await settling.settle(pipeline, keys=keys, group=group, decisions=acks, **options)


if __name__ == "__main__":
    settler.settle_in_stream = settle  # type: ignore[attr-defined]
    run(app)
