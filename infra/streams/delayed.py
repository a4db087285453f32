"""Owns the delayed set: handing what is due back to its group, by the server's clock."""

from __future__ import annotations

from infra.streams.keys import Keys
from infra.streams.pipelining import Pipeline

AT_ONCE = 500


async def promote_due(pipeline: Pipeline, *, keys: Keys) -> int:
    """Moves what is due in every shard; several processes may do so at once, since each move is one script."""
    moved = 0
    for shard in keys.all_shards():
        at = [keys.delayed(shard), keys.delayed_bodies(shard), keys.ledger(shard)]
        moved += await pipeline.run("promote", keys=at, args=[keys.retry(shard, ""), AT_ONCE])
    return moved
