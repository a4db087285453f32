"""Owns how much a receiver takes on at one time: requests, and the bytes of their bodies."""

from __future__ import annotations

from types import TracebackType

from ingest.arriving import Arriving, Client
from schemas.errors import Overloaded


class InFlight:
    """Counts the requests in work and what they hold, so that memory stays bounded; above a limit it raises Overloaded.

    A request whose body is still on its way is in nobody's way: only its bytes count, and they have a part of their own (`arriving.py`).
    Else whoever sends bodies slowly, a thousand small or ten large ones, without having to sign any, would keep everybody out.
    """

    __slots__ = ("_arriving", "_begun", "_bytes", "_count", "_limit", "_limit_bytes")

    def __init__(self, limit: int, *, limit_bytes: int) -> None:
        self._limit = limit
        self._limit_bytes = limit_bytes
        self._count = 0
        self._begun = 0
        self._bytes = 0
        self._arriving = Arriving(limit_bytes)

    def request(self, *, arriving_from: str | None = None) -> Held:
        """One request's place; leaving it gives everything back. Its body is here whole, or arriving from that address."""
        return Held(self, arriving_from=arriving_from)

    def refuse_above_limit(self) -> None:
        if self._count >= self._limit:
            raise Overloaded(f"{self._limit} requests are in work here already; send it again", retry_after_s=1)

    def begin(self, *, arriving_from: str | None) -> Client | None:
        """Lets a body arrive, unless there would be no place for its request; the client that it arrives from, if it is not here."""
        self.refuse_above_limit()
        self._begun += 1
        return None if arriving_from is None else self._arriving.begin(arriving_from)

    def enter(self, size_bytes: int, *, client: Client | None) -> None:
        """A body is here that held so much on its way."""
        self.refuse_above_limit()
        self._begun -= 1
        self._count += 1
        if client is not None:
            self._arriving.end(client, held_bytes=size_bytes)

    def has_room(self, size_bytes: int) -> bool:
        """Whether one more request of that size would be below both limits."""
        return self._count < self._limit and self._bytes + size_bytes <= self._limit_bytes

    def take(self, size_bytes: int) -> None:
        """Counts a request that there is room for, and all that it holds; `leave` gives it back."""
        self._count += 1
        self._bytes += size_bytes

    def grow(self, size_bytes: int, *, held_bytes: int, client: Client | None) -> None:
        """So much more for a request that holds so much already; `client` is the one from which its body still arrives."""
        # The only request there is may be as large as its source allows: nobody else would free anything for it.
        if self._count + self._begun > 1 and self._bytes + size_bytes > self._limit_bytes:
            raise Overloaded(f"requests in work here hold {self._limit_bytes} bytes already; send it again", retry_after_s=1)
        if client is not None:
            self._arriving.grow(client, size_bytes, held_bytes=held_bytes)
        self._bytes += size_bytes

    def leave(self, size_bytes: int, *, count: int = 1) -> None:
        self._count -= count
        self._bytes -= size_bytes

    def give_up(self, size_bytes: int, *, client: Client | None) -> None:
        """The body did not arrive."""
        self._begun -= 1
        self._bytes -= size_bytes
        if client is not None:
            self._arriving.end(client, held_bytes=size_bytes)


class Held:
    """What one request holds."""

    __slots__ = ("_arriving_from", "_bytes", "_client", "_has_arrived", "_in_flight")

    def __init__(self, in_flight: InFlight, *, arriving_from: str | None) -> None:
        self._in_flight = in_flight
        self._arriving_from = arriving_from
        self._client: Client | None = None
        self._bytes = 0
        self._has_arrived = False

    def grow(self, size_bytes: int) -> None:
        """Takes in so many bytes more; raises Overloaded, and then holds what it held before."""
        self._in_flight.grow(size_bytes, held_bytes=self._bytes, client=self._client)
        self._bytes += size_bytes

    def arrived(self) -> None:
        """All of the body is here, or comes in with what it grows by next: from now on the request is in work. Raises Overloaded."""
        self._in_flight.enter(self._bytes, client=self._client)
        self._client = None
        self._has_arrived = True

    def __enter__(self) -> Held:
        self._client = self._in_flight.begin(arriving_from=self._arriving_from)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if self._has_arrived:
            self._in_flight.leave(self._bytes)
        else:
            self._in_flight.give_up(self._bytes, client=self._client)
