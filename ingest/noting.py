"""Owns writing down, once a second, the highest numbers that the log gave this receiver.

What a log had acknowledged and lost when it died cannot be told by itself: it is counted by these.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace

from infra.acknowledged import Acknowledged, Life
from infra.clock import Clock
from infra.running.loops import BackOff, keep_running
from infra.spools import Folder
from infra.telemetry import Telemetry

INTERVAL_MS = 1000
BACK_OFF = BackOff(first_ms=1000, cap_ms=10_000)
KEPT_MS = 14 * 24 * 3_600_000


class Noting:
    """One receiver's notes; nobody waits for them."""

    def __init__(self, folder: Folder, *, clock: Clock, telemetry: Telemetry) -> None:
        self._folder = folder
        self._clock = clock
        self._telemetry = telemetry
        self._books = Acknowledged.read(folder)
        self._highest: dict[Life, int] = {}
        self._accepted: dict[str, int] = {}

    def note(self, accepted: Mapping[tuple[str, str], int], *, highest: Mapping[Life, int]) -> None:
        """The log has given numbers up to these, to so many events of each tenant and source."""
        for life, number in highest.items():
            if number > self._highest.get(life, 0):
                self._highest[life] = number
        for (tenant, source), count in accepted.items():
            owner = f"{tenant}:{source}"
            self._accepted[owner] = self._accepted.get(owner, 0) + count

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        stop = asyncio.Event()
        writing = asyncio.create_task(
            keep_running(self.write, name="acknowledged", telemetry=self._telemetry, stop=stop, interval_ms=INTERVAL_MS, back_off=BACK_OFF)
        )
        try:
            yield
        finally:
            stop.set()
            await writing
            await self.write()

    async def write(self) -> None:
        """What came since the last time, if anything did; raises OSError, and then it is written with what comes next."""
        if not self._highest:
            return
        books = added(self._books, highest=self._highest, accepted=self._accepted, now_ms=self._clock.now_ms())
        highest, self._highest = self._highest, {}
        accepted, self._accepted = self._accepted, {}
        try:
            await asyncio.to_thread(books.write, self._folder)
        except OSError:
            later, self._highest = self._highest, highest
            for life, number in later.items():  # Not always above: several connections answer.
                self._highest[life] = max(number, highest.get(life, 0))
            for owner, count in accepted.items():
                self._accepted[owner] = self._accepted.get(owner, 0) + count
            raise
        self._books = books


def added(books: Acknowledged, *, highest: dict[Life, int], accepted: dict[str, int], now_ms: int) -> Acknowledged:
    """With these numbers and counts, and without incarnations that are long past. Pure."""
    kept = {life: noted for life, noted in books.highest.items() if noted[1] > now_ms - KEPT_MS}
    for life, number in highest.items():
        kept[life] = (max(number, kept.get(life, (0, 0))[0]), now_ms)
    counts = dict(books.accepted)
    for owner, count in accepted.items():
        counts[owner] = counts.get(owner, 0) + count
    return replace(books, highest=kept, accepted=counts)
