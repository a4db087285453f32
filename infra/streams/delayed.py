"""Owns the delayed set: handing retries that are due back to their groups, and appending scheduled events, by the server's clock."""

from __future__ import annotations

import asyncio
from typing import Any

import redis

from infra.streams.incarnations import new_incarnation
from infra.streams.keys import Keys
from infra.streams.pipelining import Pipeline
from infra.streams.scripts import Argument, run_blocking

AT_ONCE = 500


async def promote_due(pipeline: Pipeline, *, keys: Keys) -> int:
    """Moves what is due in every shard; several processes may do so at once, since each move is one script.

    Raises StreamUnavailable after all were tried: on a cluster the others may be on nodes that live.
    """
    promotions = [_promotion(keys, shard=shard) for shard in keys.all_shards()]
    calls = [pipeline.run("promote", keys=at, args=args) for at, args in promotions]
    moved: list[Any] = await asyncio.gather(*calls, return_exceptions=True)
    for failure in (one for one in moved if isinstance(one, BaseException)):
        raise failure
    return sum(moved)


def promote_due_blocking(client: redis.Redis, *, keys: Keys) -> int:
    """The same for the archive: scheduled events must not depend on there being a worker."""
    calls = [_promotion(keys, shard=shard) for shard in keys.all_shards()]
    return sum(run_blocking(client, "promote", keys=at, args=args) for at, args in calls)


def _promotion(keys: Keys, *, shard: int) -> tuple[list[str], list[Argument]]:
    at = [keys.delayed(shard), keys.delayed_bodies(shard), keys.ledger(shard)]
    return at, [keys.retry(shard, ""), keys.events(shard, ""), AT_ONCE, new_incarnation()]


async def bring_forward(pipeline: Pipeline, *, keys: Keys, by_ms: int) -> None:
    """Makes everything that waits due so much sooner, as if that time had passed; for tests of retries."""
    for shard in keys.all_shards():
        for member in await pipeline.call("ZRANGE", keys.delayed(shard), 0, -1):
            # XX: what a worker promotes meanwhile must not be put back without its body.
            await pipeline.call("ZADD", keys.delayed(shard), "XX", "INCR", -by_ms, member)


async def count_waiting(pipeline: Pipeline, *, keys: Keys) -> int:
    """How many retries and scheduled events wait in all shards."""
    return sum([await pipeline.call("ZCARD", keys.delayed(shard)) for shard in keys.all_shards()])
