"""Owns the deliveries that a worker has in hand, running or waiting: which leases to renew, and which attempts overstay."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Iterable
from typing import NamedTuple

from infra.streams.reading import Lease
from processors.retry import RetryPolicy

# Renewed at a third of the lease, two renewals may fail before anybody takes the delivery.
RENEWALS_PER_LEASE = 3
# One place in so many is kept free for urgent entries, which must not wait until others are done.
RESERVED_PART = 8


class Running(NamedTuple):
    """An attempt that has begun; `deadline` is a reading of the monotonic clock."""

    lease: Lease
    processor: str
    attempt: int
    policy: RetryPolicy
    timeout_ms: int
    deadline: float
    hold_count: int | None = None
    """Set when a failure keeps its place in its lane: the delivery count it is then given."""


class Hand:
    """What this worker must renew, and how much more it may take.

    Changed by the event loop only. The lease thread looks at it too: every look copies a dictionary, which nothing can interrupt.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._held: dict[tuple[str, str], Lease] = {}
        self._running: dict[int, Running] = {}
        self.on_drop: Callable[[Lease], None] = lambda _lease: None
        """Called for each lease that leaves the hand."""
        self._changed = asyncio.Condition()

    @property
    def room(self) -> int:
        return self._limit - len(self._held)

    @property
    def leases(self) -> list[Lease]:
        return list(self._held.values())

    def begin(self, running: Running) -> None:
        self._running[id(running.lease)] = running

    def end(self, lease: Lease) -> None:
        self._running.pop(id(lease), None)

    def renewable(self, *, now: float) -> list[Lease]:
        """Everything but attempts past their deadline: whoever overstays may lose the delivery to somebody else."""
        late = {id(one.lease) for one in list(self._running.values()) if now > one.deadline}
        return [lease for lease in self.leases if id(lease) not in late]

    def overstaying(self, *, now: float, grace_s: float) -> list[Running]:
        """Attempts that still run although their time and the grace after it are over."""
        return [one for one in list(self._running.values()) if now > one.deadline + grace_s]

    def take(self, leases: Iterable[Lease]) -> None:
        for lease in leases:
            self._held[lease.stream, lease.entry_id] = lease

    async def drop(self, leases: Iterable[Lease]) -> None:
        """Forgets settled or lost leases; a later delivery of the same entry stays."""
        for lease in leases:
            if self._held.get((lease.stream, lease.entry_id)) is lease:
                del self._held[lease.stream, lease.entry_id]
                self.on_drop(lease)
        async with self._changed:
            self._changed.notify_all()

    async def replace(self, lease: Lease, *, by: Lease) -> bool:
        """The same delivery under another count; false when it is no longer in hand."""
        if not self.holds(lease):
            return False
        self._held[lease.stream, lease.entry_id] = by
        async with self._changed:
            self._changed.notify_all()
        return True

    def holds_place(self, place: tuple[str, str]) -> bool:
        return place in self._held

    def holds(self, lease: Lease) -> bool:
        return self._held.get((lease.stream, lease.entry_id)) is lease

    async def wait_for_room(self, *, is_dry: Callable[[], bool], within_s: float) -> bool:
        """Until half of the hand is free, or there is any room and nothing left to run: few large reads cost less than many small.

        False when that did not come about in time.
        """
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(within_s), self._changed:
                await self._changed.wait_for(lambda: self.budget > 0 and (2 * self.room >= self._limit or is_dry()))
                return True
        return False

    async def look_again(self) -> None:
        """Nothing is left to run: any room is worth a read now."""
        async with self._changed:
            self._changed.notify_all()

    @property
    def budget(self) -> int:
        """Half of the hand at most: while one half is settled, the other is run. The reserve is for urgent entries only."""
        return min(self.room - self._limit // RESERVED_PART, max(1, self._limit // 2))

    async def wait_until_dropped(self, lease: Lease) -> None:
        async with self._changed:
            await self._changed.wait_for(lambda: not self.holds(lease))

    async def wait_until_empty(self) -> None:
        async with self._changed:
            await self._changed.wait_for(lambda: not self._held)
