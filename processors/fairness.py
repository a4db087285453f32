"""Owns which waiting delivery runs next: urgent ones first, but never only those, and each tenant in its turn.

Credits keep the lower classes alive: a class may go first as often as its weight says before all get their credits anew.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict, deque

from infra.streams.budget import WEIGHTS
from infra.streams.reading import Lease


class FairQueue:
    """Deliveries in hand that wait for a place in the pool; used by one event loop."""

    def __init__(self) -> None:
        self._waiting: dict[str, OrderedDict[bytes, deque[Lease]]] = {name: OrderedDict() for name in WEIGHTS}
        self._present: list[str] = []
        """The classes of which any wait, the weightiest first."""
        self._credits = dict(WEIGHTS)
        self._idle: deque[asyncio.Future[None]] = deque()
        self._is_waking = False
        self.count = 0
        """How many wait."""

    def put(self, lease: Lease, *, kind: str) -> None:
        tenants = self._waiting[kind]
        if not tenants:
            self._present = [name for name in self._waiting if name == kind or name in self._present]
        tenant = lease.tenant
        if tenant in tenants:
            tenants[tenant].append(lease)
        else:
            tenants[tenant] = deque((lease,))
        self.count += 1
        self._wake_one()

    async def get(self) -> Lease:
        """The next one; waits while there is none."""
        while not self.count:
            await self._wait()
        return self.take()

    def take(self) -> Lease:
        """The next one; there must be one."""
        self.count -= 1
        if self.count and self._idle and not self._is_waking:
            # One after the other: where processors are quick, the first one that is awake does it all.
            self._wake_one()
        return self._take(self._next_kind())

    async def _wait(self) -> None:
        waiter = asyncio.get_running_loop().create_future()
        self._idle.append(waiter)
        try:
            await waiter
        except asyncio.CancelledError:
            # It may have been woken for something already, which is another's now.
            self._is_waking = False
            if self.count:
                self._wake_one()
            raise
        self._is_waking = False

    def _wake_one(self) -> None:
        if self._is_waking:
            return
        while self._idle:
            waiter = self._idle.popleft()
            if not waiter.done():
                self._is_waking = True
                waiter.set_result(None)
                return

    def _next_kind(self) -> str:
        for name in self._present:
            if self._credits[name] > 0:
                return name
        self._credits = dict(WEIGHTS)
        return self._present[0]

    def _take(self, kind: str) -> Lease:
        self._credits[kind] -= 1
        tenants = self._waiting[kind]
        tenant, leases = next(iter(tenants.items()))
        lease = leases.popleft()
        if not leases:
            del tenants[tenant]
            if not tenants:
                self._present.remove(kind)
        elif len(tenants) > 1:
            tenants.move_to_end(tenant)
        return lease
