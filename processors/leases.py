"""Owns the deliveries that a worker has in hand, running or waiting, and which of their leases to renew."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

from infra.streams.stream import Lease

# Renewed at a third of the lease, two renewals may fail before anybody takes the delivery.
RENEWALS_PER_LEASE = 3


class Hand:
    """What this worker must renew, and how much more it may take."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._held: dict[tuple[str, str], Lease] = {}
        self._changed = asyncio.Condition()

    @property
    def room(self) -> int:
        return self._limit - len(self._held)

    @property
    def leases(self) -> list[Lease]:
        return list(self._held.values())

    def take(self, leases: Iterable[Lease]) -> None:
        for lease in leases:
            self._held[lease.stream, lease.entry_id] = lease

    async def drop(self, leases: Iterable[Lease]) -> None:
        """Forgets settled or lost leases; a later delivery of the same entry stays."""
        for lease in leases:
            if self._held.get((lease.stream, lease.entry_id)) is lease:
                del self._held[lease.stream, lease.entry_id]
        async with self._changed:
            self._changed.notify_all()

    def holds_place(self, place: tuple[str, str]) -> bool:
        return place in self._held

    def holds(self, lease: Lease) -> bool:
        return self._held.get((lease.stream, lease.entry_id)) is lease

    async def wait_for_room(self) -> None:
        async with self._changed:
            await self._changed.wait_for(lambda: self.room > 0)

    async def wait_until_dropped(self, lease: Lease) -> None:
        async with self._changed:
            await self._changed.wait_for(lambda: not self.holds(lease))

    async def wait_until_empty(self) -> None:
        async with self._changed:
            await self._changed.wait_for(lambda: not self._held)
