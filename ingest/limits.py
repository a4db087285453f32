"""Owns how much a receiver takes on at one time: requests, and the bytes of their bodies."""

from __future__ import annotations

from types import TracebackType

from schemas.errors import Overloaded


class InFlight:
    """Counts the requests in work and what they hold, so that memory stays bounded; above a limit it raises Overloaded.

    A request whose body is still on its way is in nobody's way, and only its bytes count: else whoever sends a thousand bodies slowly,
    without having to sign any, would keep everybody out.
    """

    __slots__ = ("_arriving", "_bytes", "_count", "_limit", "_limit_bytes")

    def __init__(self, limit: int, *, limit_bytes: int) -> None:
        self._limit = limit
        self._limit_bytes = limit_bytes
        self._count = 0
        self._arriving = 0
        self._bytes = 0

    def request(self) -> Held:
        """One request's place; leaving it gives everything back."""
        return Held(self)

    def refuse_above_limit(self) -> None:
        if self._count >= self._limit:
            raise Overloaded(f"{self._limit} requests are in work here already; send it again", retry_after_s=1)

    def begin(self) -> None:
        """Lets a body arrive, unless there would be no place for its request."""
        self.refuse_above_limit()
        self._arriving += 1

    def enter(self) -> None:
        self.refuse_above_limit()
        self._arriving -= 1
        self._count += 1

    def has_room(self, size_bytes: int) -> bool:
        """Whether one more request of that size would be below both limits."""
        return self._count < self._limit and self._bytes + size_bytes <= self._limit_bytes

    def take(self, size_bytes: int) -> None:
        """Counts a request that there is room for, and all that it holds; `leave` gives it back."""
        self._count += 1
        self._bytes += size_bytes

    def grow(self, size_bytes: int) -> None:
        # The only request there is may be as large as its source allows: nobody else would free anything for it.
        if self._count + self._arriving > 1 and self._bytes + size_bytes > self._limit_bytes:
            raise Overloaded(f"requests in work here hold {self._limit_bytes} bytes already; send it again", retry_after_s=1)
        self._bytes += size_bytes

    def leave(self, size_bytes: int, *, count: int = 1) -> None:
        self._count -= count
        self._bytes -= size_bytes

    def give_up(self, size_bytes: int) -> None:
        """The body did not arrive."""
        self._arriving -= 1
        self._bytes -= size_bytes


class Held:
    """What one request holds."""

    __slots__ = ("_bytes", "_has_arrived", "_in_flight")

    def __init__(self, in_flight: InFlight) -> None:
        self._in_flight = in_flight
        self._bytes = 0
        self._has_arrived = False

    def grow(self, size_bytes: int) -> None:
        """Takes in so many bytes more; raises Overloaded, and then holds what it held before."""
        self._in_flight.grow(size_bytes)
        self._bytes += size_bytes

    def arrived(self) -> None:
        """All of the body is here: from now on the request is in work. Raises Overloaded."""
        self._in_flight.enter()
        self._has_arrived = True

    def __enter__(self) -> Held:
        self._in_flight.begin()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        leave = self._in_flight.leave if self._has_arrived else self._in_flight.give_up
        leave(self._bytes)
