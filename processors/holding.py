"""Owns which shards a worker reads when its group keeps order: each shard has one holder, and members share them evenly.

A new holder takes up what the group has pending there, in the order of entries, before it reads anything new. A worker that is
not sure to hold a shard any more begins nothing of it: somebody else may be reading it already.
"""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from infra.clock import Clock
from infra.streams.holding import ShardHolds
from infra.streams.reading import GroupReader, Lease
from processors.leases import Hand

# A hold is trusted for this part of its time after it was asked for: the rest is for clocks and slow answers.
TRUSTED_PART = 2 / 3


def fair_share(shards: int, *, members: int) -> int:
    """How many shards one member holds at most; together they hold all. Pure."""
    return -(-shards // max(1, members))


class HeldReader(GroupReader):
    """A reader that knows which shards a read is under way for: until it ends, it may hand out their entries."""

    under_way: frozenset[int] = frozenset()

    async def read(self, *, budget: int, block_ms: int) -> list[Lease]:
        with self._noted():
            return await super().read(budget=budget, block_ms=block_ms)

    async def read_urgent(self, *, budget: int) -> list[Lease]:
        with self._noted():
            return await super().read_urgent(budget=budget)

    @contextmanager
    def _noted(self) -> Iterator[None]:
        self.under_way = self.read_shards
        try:
            yield
        finally:
            self.under_way = frozenset()


class Holding:
    """The shards of one worker."""

    def __init__(self, holds: ShardHolds, *, reader: HeldReader, hand: Hand, shards: int, ttl_ms: int, clock: Clock) -> None:
        self._holds = holds
        self._reader = reader
        self._hand = hand
        self._shards = shards
        self._ttl_ms = ttl_ms
        self._clock = clock
        self._held_until: dict[int, float] = {}
        self._leaving: set[int] = set()
        self._resting: set[int] = set()
        self.to_adopt: deque[int] = deque()
        """Shards that are held and not yet read: what is pending there comes first."""
        reader.read_only(())

    def holds(self, shard: int) -> bool:
        return self._clock.monotonic() < self._held_until.get(shard, 0.0)

    async def look(self) -> None:
        """One round: keeps what is held, gives up what is too much, takes what is free. Raises StreamUnavailable."""
        members = await self._holds.join(ttl_ms=self._ttl_ms)
        for shard in list(self._held_until):
            await self._keep(shard)
        share = fair_share(self._shards, members=members)
        await self._give_up_beyond(share)
        for shard in range(self._shards):
            if len(self._held_until) < share and shard not in self._held_until:
                await self._take(shard)
        self._adopt_rested()

    async def _keep(self, shard: int) -> None:
        was_sure = self.holds(shard)
        if not await self._ask_for(shard):
            await self._lose(shard)
        elif not was_sure and shard not in self._leaving:
            # What waited in hand was dropped meanwhile: it is pending, and comes before anything new.
            self._forget(shard)
            self._resting.add(shard)

    async def _take(self, shard: int) -> None:
        if await self._ask_for(shard):
            self._resting.add(shard)

    def _adopt_rested(self) -> None:
        """Not while a read may still hand entries out, which would be taken for those that others have left."""
        rested = self._resting - self._reader.under_way
        self._resting -= rested
        self.to_adopt.extend(sorted(rested))

    async def _ask_for(self, shard: int) -> bool:
        asked_at = self._clock.monotonic()
        if not await self._holds.hold(shard, ttl_ms=self._ttl_ms):
            return False
        self._held_until[shard] = asked_at + self._ttl_ms / 1000 * TRUSTED_PART
        return True

    async def _lose(self, shard: int) -> None:
        """Somebody else has it: whatever of it is in hand is theirs."""
        del self._held_until[shard]
        self._leaving.discard(shard)
        self._forget(shard)
        self._hand.drop([lease for lease in self._hand.leases if lease.shard == shard])

    def _forget(self, shard: int) -> None:
        self._reader.read_only(self._reader.read_shards - {shard})
        self._resting.discard(shard)
        if shard in self.to_adopt:
            self.to_adopt.remove(shard)

    async def _give_up_beyond(self, share: int) -> None:
        surplus = [shard for shard in sorted(self._held_until) if shard not in self._leaving][share:]
        # What is being adopted is brought to its end: a claim may be under way.
        being_adopted = set(itertools.islice(self.to_adopt, 1))
        for shard in surplus:
            self._leaving.add(shard)
            if shard not in being_adopted:
                self._forget(shard)
        # A read that is under way may bring more of them, which nobody else would ever run.
        for shard in self._leaving - self._reader.under_way - being_adopted:
            if not any(lease.shard == shard for lease in self._hand.leases):
                await self._let_go(shard)

    async def _let_go(self, shard: int) -> None:
        self._leaving.discard(shard)
        self._held_until.pop(shard, None)
        await self._holds.let_go(shard)

    def adopt_again(self, shards: Iterable[int] | None = None) -> None:
        """After a lost reply: the log may have handed us entries that we know nothing of, and they come before anything new."""
        for shard in self._reader.read_shards.intersection(self._reader.read_shards if shards is None else shards):
            self._forget(shard)
            self.to_adopt.append(shard)

    def adopted(self, shard: int) -> None:
        """Everything that was pending there is in hand or settled: new entries may be read."""
        if shard in self.to_adopt:
            self.to_adopt.remove(shard)
        if shard in self._held_until and shard not in self._leaving:
            self._reader.read_only(self._reader.read_shards | {shard})

    async def end(self) -> None:
        """At the end of a worker: others need not wait until its holds run out."""
        for shard in list(self._held_until):
            self._forget(shard)
            await self._let_go(shard)
        await self._holds.leave()
