"""Owns the deliveries that a worker has in hand, running or waiting: which leases to renew, and which attempts overstay."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import NamedTuple

from infra.streams.reading import Lease
from processors.plan import Plan

# Renewed at a third of the lease, two renewals may fail before anybody takes the delivery.
RENEWALS_PER_LEASE = 3
# One place in so many is kept free for urgent entries, which must not wait until others are done.
RESERVED_PART = 8


class Running(NamedTuple):
    """An attempt that has begun; times are readings of the monotonic clock."""

    lease: Lease
    plan: Plan
    attempt: int
    began: float
    hold_count: int | None = None
    """Set when a failure keeps its place in its lane: the delivery count it is then given."""

    @property
    def deadline(self) -> float:
        return self.began + self.plan.timeout_s


# A quarter of what its constructor costs.
_running: Callable[[tuple[Lease, Plan, int, float, int | None]], Running] = functools.partial(tuple.__new__, Running)


class Hand:
    """What this worker must renew, and how much more it may take.

    Changed by the event loop only. The lease thread looks at it too: every look copies a dictionary, which nothing can interrupt.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._held: dict[tuple[str, str], Lease] = {}
        self._promised = 0
        self.body_bytes = 0
        """Of everything in hand."""
        self._running: dict[int, Running] = {}
        self._in_company: set[int] = set()
        self.on_drop: Callable[[Lease], None] | None = None
        """Called for each lease that leaves the hand."""
        self._watching: list[asyncio.Future[None]] = []

    @property
    def room(self) -> int:
        return self._limit - len(self._held) - self._promised

    @property
    def reserve(self) -> int:
        """For urgent entries only."""
        return self._limit // RESERVED_PART

    @property
    def ordinary_room(self) -> int:
        """Without what is left of the reserve."""
        return self.room - max(0, self.reserve - self._promised)

    @contextmanager
    def promised(self, places: int) -> Iterator[None]:
        """While a read is under way that may bring so many, beside other reads."""
        self._promised += places
        try:
            yield
        finally:
            self._promised -= places

    @property
    def leases(self) -> list[Lease]:
        return list(self._held.values())

    def begin(self, lease: Lease, plan: Plan, attempt: int, began: float, hold_count: int | None) -> Running:
        """An attempt begins."""
        running = self._running[id(lease)] = _running((lease, plan, attempt, began, hold_count))
        return running

    def end(self, lease: Lease) -> None:
        self._running.pop(id(lease), None)

    @contextmanager
    def in_company(self, leases: Iterable[Lease]) -> Iterator[None]:
        """While these are run in one call: whatever it does, nobody knows which of them is to blame."""
        ids = {id(lease) for lease in leases}
        self._in_company |= ids
        try:
            yield
        finally:
            self._in_company -= ids

    def is_in_company(self, lease: Lease) -> bool:
        return id(lease) in self._in_company

    def renewable(self, *, now: float) -> list[Lease]:
        """Everything but attempts past their deadline: whoever overstays may lose the delivery to somebody else."""
        late = {id(one.lease) for one in self._overdue(now)}
        return [lease for lease in self.leases if id(lease) not in late]

    def overstaying(self, *, now: float, grace_s: float) -> list[Running]:
        """Attempts that still run although their time and the grace after it are over."""
        return self._overdue(now - grace_s)

    def _overdue(self, now: float) -> list[Running]:
        return [one for one in list(self._running.values()) if now > one.deadline]

    def take(self, leases: Iterable[Lease]) -> None:
        for lease in leases:
            self._held[lease.stream, lease.entry_id] = lease
            self.body_bytes += lease.body_bytes

    def drop(self, leases: Iterable[Lease]) -> None:
        """Forgets settled or lost leases; a later delivery of the same entry stays."""
        held, on_drop = self._held, self.on_drop
        for lease in leases:
            place = lease.stream, lease.entry_id
            if held.get(place) is lease:
                del held[place]
                self.body_bytes -= lease.body_bytes
                if on_drop is not None:
                    on_drop(lease)
        self.look_again()

    def replace(self, lease: Lease, *, by: Lease) -> bool:
        """The same delivery under another count; false when it is no longer in hand."""
        if not self.holds(lease):
            return False
        self._held[lease.stream, lease.entry_id] = by
        self.look_again()
        return True

    def holds_place(self, place: tuple[str, str]) -> bool:
        return place in self._held

    def holds(self, lease: Lease) -> bool:
        return self._held.get((lease.stream, lease.entry_id)) is lease

    def look_again(self) -> None:
        """Whoever waits for a change of the hand looks whether it is the one."""
        watching, self._watching = self._watching, []
        for watcher in watching:
            _wake(watcher)

    async def wait_until(self, is_so: Callable[[], bool], *, within_s: float) -> bool:
        """Looks at every change of the hand; false when it did not come about in time."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + within_s
        while not is_so():
            if loop.time() >= deadline:
                return False
            watcher = loop.create_future()
            self._watching.append(watcher)
            timer = loop.call_at(deadline, _wake, watcher)
            try:
                await watcher
            finally:
                timer.cancel()
        return True

    async def wait_until_dropped(self, lease: Lease) -> None:
        while not await self.wait_until(lambda: not self.holds(lease), within_s=60.0):
            pass

    async def wait_until_empty(self) -> None:
        while not await self.wait_until(lambda: not self._held, within_s=60.0):
            pass


def _wake(watcher: asyncio.Future[None]) -> None:
    if not watcher.done():
        watcher.set_result(None)
