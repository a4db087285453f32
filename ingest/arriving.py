"""Owns how much the bodies may hold that are still on their way: all of them, and those of one client.

Nobody has verified them, and their senders decide how long they take. So they leave half of what a receiver may hold to the bodies that
are here, and those of one client leave half of theirs to the others.
"""

from __future__ import annotations

from infra.running.shares import client_at
from schemas.errors import Overloaded


class Client:
    """What is on its way from one address, or from all that one client has at will."""

    __slots__ = ("bodies", "held_bytes", "name")

    def __init__(self, name: str) -> None:
        self.name = name
        self.bodies = 0
        self.held_bytes = 0


class Arriving:
    """Counts what bodies hold that are not here to their last byte."""

    __slots__ = ("_clients", "_held_bytes", "_limit_bytes", "_share_bytes")

    def __init__(self, limit_bytes: int) -> None:
        self._limit_bytes = limit_bytes // 2
        self._share_bytes = limit_bytes // 4
        self._held_bytes = 0
        self._clients: dict[str, Client] = {}

    def begin(self, address: str) -> Client:
        """One more body is on its way; `end` tells that it is no more."""
        name = client_at(address)
        client = self._clients.get(name)
        if client is None:
            client = self._clients[name] = Client(name)
        client.bodies += 1
        return client

    def grow(self, client: Client, size_bytes: int, *, held_bytes: int) -> None:
        """So much more came of a body that holds so much already; raises Overloaded, and then counts nothing.

        A body may be as large as its source allows while no other one holds anything: nobody else would free anything for it. That they
        hold nothing is asked, not that there are none, or a large body would end as soon as its sender begins another one.
        """
        if client.held_bytes > held_bytes and client.held_bytes + size_bytes > self._share_bytes:
            raise _overloaded("bodies from this address", limit_bytes=self._share_bytes)
        if self._held_bytes > held_bytes and self._held_bytes + size_bytes > self._limit_bytes:
            raise _overloaded("bodies", limit_bytes=self._limit_bytes)
        client.held_bytes += size_bytes
        self._held_bytes += size_bytes

    def end(self, client: Client, *, held_bytes: int) -> None:
        """A body is here, or will not come."""
        client.held_bytes -= held_bytes
        self._held_bytes -= held_bytes
        client.bodies -= 1
        if not client.bodies:
            del self._clients[client.name]  # Or every address that ever came would be kept.


def _overloaded(whose: str, *, limit_bytes: int) -> Overloaded:
    return Overloaded(f"{whose} that are still on their way here may hold {limit_bytes} bytes together; send it again", retry_after_s=1)
