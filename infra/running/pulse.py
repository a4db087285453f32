"""Owns knowing that this process was held up a moment ago, and with it perhaps everybody on its machine. Pure but for the timer.

Deadlines of clients run on while their host stands still. When it goes on they are all over at once, before any client has had its turn:
whoever ended those connections would blame clients for what their machine did, or ours.
"""

from __future__ import annotations

import asyncio

BEATS_EVERY_S = 0.1
HELD_UP_S = 1.0
"""A beat that comes later than this was held up; a busy moment is shorter."""
FORGIVES_FOR_S = 2.0
"""How long clients have from then on."""


class Pulse:
    """Beats while a process is alive; one that never began forgives nobody."""

    __slots__ = ("_beat_at", "_forgives_until")

    def __init__(self) -> None:
        self._beat_at: float | None = None
        self._forgives_until = 0.0

    def begin(self, loop: asyncio.AbstractEventLoop) -> None:
        """Beats from now on, for as long as the loop runs."""
        self.beat(loop.time())
        loop.call_later(BEATS_EVERY_S, self.begin, loop)

    def beat(self, now_s: float) -> None:
        if self._beat_at is not None and now_s - self._beat_at > HELD_UP_S:
            self._forgives_until = now_s + FORGIVES_FOR_S
        self._beat_at = now_s

    def forgives_for_s(self, now_s: float) -> float:
        """How long nobody is ended for being late; 0 unless we were late ourselves."""
        return max(0.0, self._forgives_until - now_s)
