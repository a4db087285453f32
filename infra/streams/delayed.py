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


async def bring_forward(pipeline: Pipeline, *, keys: Keys, by_ms: int) -> None:
    """Makes everything that waits due so much sooner, as if that time had passed; for tests of retries."""
    for shard in keys.all_shards():
        for member in await pipeline.call("ZRANGE", keys.delayed(shard), 0, -1):
            # XX: what a worker promotes meanwhile must not be put back without its body.
            await pipeline.call("ZADD", keys.delayed(shard), "XX", "INCR", -by_ms, member)


async def count_waiting(pipeline: Pipeline, *, keys: Keys) -> int:
    """How many retries wait in all shards."""
    return sum([await pipeline.call("ZCARD", keys.delayed(shard)) for shard in keys.all_shards()])
