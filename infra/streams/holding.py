"""Owns holding shards on the log, for groups whose events keep their order: the acting half of `processors/holding.py`."""

from __future__ import annotations

from infra.streams.keys import Keys
from infra.streams.pipelining import Pipeline


class ShardHolds:
    """One consumer's holds; raises StreamUnavailable."""

    def __init__(self, pipeline: Pipeline, *, keys: Keys, group: str, consumer: str) -> None:
        self._pipeline = pipeline
        self._keys = keys
        self._group = group
        self._consumer = consumer

    async def hold(self, shard: int, *, ttl_ms: int) -> bool:
        """Takes the shard, or keeps it for longer; false while another consumer holds it."""
        reply = await self._pipeline.run("hold", keys=[self._keys.lease(shard, self._group)], args=[self._consumer, ttl_ms])
        return bool(reply)

    async def let_go(self, shard: int) -> None:
        """Another consumer may take it at once; harmless when it is not ours."""
        await self._pipeline.run("hold", keys=[self._keys.lease(shard, self._group)], args=[self._consumer, 0])

    async def join(self, *, ttl_ms: int) -> int:
        """Says that this consumer is there; returns how many are."""
        return int(await self._pipeline.run("join", keys=[self._keys.members(self._group)], args=[self._consumer, ttl_ms]))

    async def leave(self) -> None:
        await self._pipeline.run("join", keys=[self._keys.members(self._group)], args=[self._consumer, 0])
