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
        self._credits = dict(WEIGHTS)
        self._count = 0
        self._available = asyncio.Event()

    def put(self, lease: Lease, *, kind: str) -> None:
        tenants = self._waiting[kind]
        tenant = lease.fields.get(b"tenant_id", b"")
        if tenant not in tenants:
            tenants[tenant] = deque()
        tenants[tenant].append(lease)
        self._count += 1
        if self._count == 1:
            self._available.set()

    @property
    def is_empty(self) -> bool:
        return self._count == 0

    async def get(self) -> Lease:
        """The next one; waits while there is none."""
        while not self._count:
            self._available.clear()
            await self._available.wait()
        self._count -= 1
        return self._take(self._next_kind())

    def _next_kind(self) -> str:
        for name, tenants in self._waiting.items():
            if tenants and self._credits[name] > 0:
                return name
        self._credits = dict(WEIGHTS)
        return next(name for name, tenants in self._waiting.items() if tenants)

    def _take(self, kind: str) -> Lease:
        self._credits[kind] -= 1
        tenants = self._waiting[kind]
        tenant, leases = next(iter(tenants.items()))
        lease = leases.popleft()
        if leases:
            tenants.move_to_end(tenant)
        else:
            del tenants[tenant]
        return lease
