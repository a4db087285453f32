"""Owns which incarnation each shard of the log is in: asked anew on every new connection.

A new connection may lead to a restarted server or to another one, which may lack entries that the old one had;
numbers given under the old incarnation would then be given twice.
"""

from __future__ import annotations

import os

from infra.streams.keys import Keys, why_other_shards
from infra.streams.pipelining import Pipeline
from schemas.errors import ConfigError


class Incarnations:
    """What is known about them, each with the generation of the connection that it was learnt on."""

    def __init__(self, pipeline: Pipeline, *, keys: Keys) -> None:
        self._pipeline = pipeline
        self._keys = keys
        self._known: dict[int, tuple[str, int]] = {}

    def known(self, shard: int) -> tuple[str, int] | None:
        """What `of` would answer, where it need not ask: nearly always, on one server. None says nothing."""
        known = self._known.get(shard)
        return known if known is not None and known[1] == self._pipeline.open_generation else None

    async def of(self, shard: int) -> tuple[str, int]:
        """The incarnation, and the generation of the connection that it was learnt on."""
        generation = await self._connect(shard)
        known = self._known.get(shard)
        if known is not None and known[1] == generation:
            return known
        if shard != 0:
            # It exists in every log and so knows the number of shards; one that the log lacks would begin without a word.
            await self.of(0)
            generation = await self._connect(shard)
        return await self._begin(shard, generation=generation)

    async def _connect(self, shard: int) -> int:
        return await self._pipeline.connect(self._keys.ledger(shard))

    async def _begin(self, shard: int, *, generation: int) -> tuple[str, int]:
        at = [self._keys.ledger(shard), self._keys.registry(shard)]
        reply = await self._pipeline.run("begin", keys=at, args=[new_incarnation(), self._keys.shards], generation=generation)
        self._known[shard] = begun(reply, keys=self._keys), generation
        return self._known[shard]

    def forget(self, shard: int) -> None:
        self._known.pop(shard, None)


def new_incarnation() -> str:
    return os.urandom(4).hex()


def begun(reply: list[bytes], *, keys: Keys) -> str:
    """The incarnation that `begin` answered; raises ConfigError when the log has another number of shards."""
    status, value = reply
    if status == b"shards":
        raise ConfigError(why_other_shards(value, wanted=keys.shards))
    return value.decode()
