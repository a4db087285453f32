"""Owns how much a worker takes in at once: about as much as it settles in a fifth of a second. Pure, but for its own state.

Much at once is cheap, since every read and every settle costs the log an fsync. But what one worker holds nobody else can run: a
worker of slow processors takes little, and its neighbours share the rest.
"""

from __future__ import annotations

HALF_LIFE_S = 0.5
AHEAD_S = 0.2
# Of bodies: a worker must stay small. One read, and all in hand before the next.
READ_BYTES = 8_000_000
HELD_BYTES = 5 * READ_BYTES
# While urgent events come: a read of hundreds keeps the log's server busy for milliseconds, and then this process, too.
SMALL_STEP = 64
HURRIED_S = 1.0
LN_2 = 0.6931


class Pace:
    """How fast one worker is, and how large its events are."""

    def __init__(self, *, least: int, most: int) -> None:
        self._least = min(least, most)
        self._most = most
        self._recent = 0.0
        self._noted_at = 0.0
        self._body_bytes = 0.0
        self._hurried_until = float("-inf")

    def hurry(self, *, now: float) -> None:
        """Something urgent has come, and more of it may: everything else is taken in small steps for a while."""
        self._hurried_until = now + HURRIED_S

    def settled(self, count: int, *, now: float) -> None:
        self._recent = self._faded(now) + count
        self._noted_at = now

    def read(self, count: int, *, body_bytes: int) -> None:
        """The newest read tells best how large the next entries are."""
        if count:
            self._body_bytes = body_bytes / count

    def batch(self, *, now: float) -> int:
        """How many deliveries one read may ask for."""
        per_second = self._faded(now) * LN_2 / HALF_LIFE_S
        most = self._most if now > self._hurried_until else min(self._most, SMALL_STEP)
        wanted = max(min(self._least, most), min(most, round(per_second * AHEAD_S)))
        return max(1, min(wanted, int(READ_BYTES / max(1.0, self._body_bytes))))

    def is_quick(self, *, now: float) -> bool:
        """Whether more is settled than one batch in a fifth of a second."""
        return self._faded(now) * LN_2 / HALF_LIFE_S * AHEAD_S > self._most

    def _faded(self, now: float) -> float:
        part: float = 0.5 ** ((now - self._noted_at) / HALF_LIFE_S)
        return self._recent * part
