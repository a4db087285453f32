"""Owns what a group has parked: entries of a version that its worker could not read, and taking them back when one can.

While workers are replaced by those of a newer release, both run: the older park what the newer write, and after a step back
to the older release what is left of the newer waits here until that returns. `settle.py` parks.
"""

from __future__ import annotations

from infra.streams.entries import READABLE_VERSIONS
from infra.streams.keys import Keys
from infra.streams.pipelining import Pipeline
from infra.streams.scripts import Argument

# Entries carry whole bodies, which the script reads: a few at a time.
AT_ONCE = 50
ROUNDS = 20


class Parked:
    """The parked entries of one group, as one of its workers sees them."""

    def __init__(self, pipeline: Pipeline, *, keys: Keys, group: str, versions: frozenset[int] = READABLE_VERSIONS) -> None:
        self._pipeline = pipeline
        self._keys = keys
        self._group = group
        self._versions = sorted(versions)
        self._behind: dict[int, str] = {}

    async def take_back(self) -> int:
        """Hands what can be read here to the group again, a bounded amount; returns how many. Several workers may do so at once."""
        return sum([await self._take_back(shard) for shard in self._keys.all_shards()])

    async def _take_back(self, shard: int) -> int:
        at = [self._keys.parked(shard, self._group), self._keys.retry(shard, self._group)]
        total = 0
        for _ in range(ROUNDS):
            args: list[Argument] = [self._behind.get(shard, ""), AT_ONCE, *self._versions]
            moved, behind = await self._pipeline.run("unpark", keys=at, args=args)
            self._behind[shard] = behind.decode()
            total += moved
            # Where nothing is for us, one look a round is enough: the next goes on from there.
            if not moved or not behind:
                break
        return total


async def count_parked(pipeline: Pipeline, *, keys: Keys, group: str) -> int:
    return sum([await pipeline.call("XLEN", keys.parked(shard, group)) for shard in keys.all_shards()])
