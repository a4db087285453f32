"""Owns how much a receiver takes on at one time."""

from __future__ import annotations

from types import TracebackType

from schemas.errors import Overloaded


class InFlight:
    """Counts the requests in work; entering raises Overloaded above the limit, so that memory stays bounded."""

    __slots__ = ("_count", "_limit")

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._count = 0

    def __enter__(self) -> None:
        if self._count >= self._limit:
            raise Overloaded(f"{self._limit} requests are in work here already; send it again", retry_after_s=1)
        self._count += 1

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._count -= 1
