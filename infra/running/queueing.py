"""Owns what waits behind other requests of its connection, since its sender does not wait for answers: how much, and when more is read.

uvicorn reads on with every answer, and makes a request of whatever comes, however many wait already: a sender of the shortest requests who
reads no answers fills the memory with them. Here nothing is read while any waits. What came at once with those is bounded by number and,
over all connections, by size.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sized

from uvicorn.protocols.http.flow_control import FlowControl

MOST_ON_ONE = 256
"""Of one connection: as many as one read brings of requests of a kilobyte."""
MOST_BYTES = 32 * 1024 * 1024
"""Over all connections."""
REQUEST_BYTES = 4096
"""What a request takes that waits, beside its own bytes."""


class Flow(FlowControl):
    """Reads no further while anything waits, whoever asks for it: the request that is answered now is here whole then."""

    def __init__(self, transport: asyncio.Transport, *, waiting: Sized) -> None:
        super().__init__(transport)
        self._waiting = waiting

    def resume_reading(self) -> None:
        if not self._waiting:
            super().resume_reading()


class Queues:
    """Those of all connections together."""

    __slots__ = ("size_bytes",)

    def __init__(self) -> None:
        self.size_bytes = 0


class Queue:
    """That of one connection, as far as it has to be counted."""

    __slots__ = ("_all", "_count", "_size_bytes")

    def __init__(self, queues: Queues) -> None:
        self._all = queues
        self._count = 0
        self._size_bytes = 0

    def enter(self, *, read_bytes: int) -> bool:
        """Counts one more, if there is room for it; `read_bytes` came at once, and all that waits was among them."""
        more_bytes = REQUEST_BYTES if self._count else REQUEST_BYTES + read_bytes
        if self._count >= MOST_ON_ONE or self._all.size_bytes + more_bytes > MOST_BYTES:
            return False
        self._count += 1
        self._size_bytes += more_bytes
        self._all.size_bytes += more_bytes
        return True

    def clear(self) -> None:
        """Nothing waits any more."""
        self._all.size_bytes -= self._size_bytes
        self._count = self._size_bytes = 0
