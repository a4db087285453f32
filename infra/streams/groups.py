"""Owns consumer groups as such: declaring them on all their streams, for processors (asyncio) and the archive (blocking)."""

from __future__ import annotations

from typing import Literal

import redis

from infra.streams.incarnations import Incarnations
from infra.streams.keys import ARCHIVE_GROUP, Keys
from infra.streams.pipelining import Pipeline
from infra.streams.reading import group_streams
from infra.streams.scripts import run_blocking

Kind = Literal["durable", "ephemeral"]


async def declare(pipeline: Pipeline, *, keys: Keys, group: str, kind: Kind = "durable", ttl_ms: int = 0) -> int:
    """Makes sure that the group exists on every stream it reads; returns on how many it had to be created.

    One that vanished comes back where the registry says it had settled everything, else at the start of what there is.

    An ephemeral group is removed when nobody has read it for `ttl_ms`.
    """
    # First of all, whether the log has these shards: groups on shards that it lacks would only confuse. Raises ConfigError.
    await Incarnations(pipeline, keys=keys).of(0)
    created, of_kind = 0, f"ephemeral:{ttl_ms}" if kind == "ephemeral" else kind
    for shard in keys.all_shards():
        at = [keys.registry(shard), keys.ledger(shard), *group_streams(keys, shard=shard, group=group)]
        created += await pipeline.run("declare", keys=at, args=[group, of_kind])
    return created


async def note_alive(pipeline: Pipeline, *, keys: Keys, group: str) -> None:
    """Says on every shard that a worker of the group lives."""
    for shard in keys.all_shards():
        await pipeline.run("alive", keys=[keys.registry(shard)], args=[group])


def declare_again(client: redis.Redis, *, keys: Keys, group: str) -> None:
    """Puts a durable group back on a log that has forgotten it; once, so that one which is removed afterwards stays removed."""
    said = f"said:{group}"
    if not client.hexists(keys.ledger(0), said):
        for shard in keys.all_shards():
            at = [keys.registry(shard), keys.ledger(shard), *group_streams(keys, shard=shard, group=group)]
            run_blocking(client, "declare", keys=at, args=[group, "durable"])
        client.hset(keys.ledger(0), said, 1)


def declare_archive(client: redis.Redis, *, keys: Keys) -> int:
    """The same for `archive`, which reads events and what is recorded beside them."""
    return sum(_declare_archive(client, keys=keys, shard=shard) for shard in keys.all_shards())


def _declare_archive(client: redis.Redis, *, keys: Keys, shard: int) -> int:
    at, args = [keys.registry(shard), keys.ledger(shard)], [ARCHIVE_GROUP, "durable"]
    try:
        created: int = run_blocking(client, "declare", keys=[*at, *keys.archived_streams(shard)], args=args)
    except redis.ResponseError:
        # A key of records that is no stream must not keep events from being archived.
        created = run_blocking(client, "declare", keys=[*at, *keys.event_streams(shard)], args=args)
    return created
