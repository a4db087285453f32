"""Owns when each secret was used last, so that an operator sees when an old one may go: in memory, and once a minute in the log."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from datetime import datetime, timedelta

from structlog.typing import FilteringBoundLogger

from infra.running.loops import keep_running
from infra.streams.stream import EventStream
from infra.telemetry import Telemetry
from schemas.errors import StreamUnavailable
from schemas.event import to_epoch_ms

HOUR = timedelta(hours=1)
INTERVAL_MS = 60_000

KeyName = tuple[str, str, str]
"""Tenant, source and key id."""


class KeyUse:
    """The time of the last request that each key verified; one log line per key and hour."""

    __slots__ = ("_unwritten", "_written", "last_used")

    def __init__(self) -> None:
        self.last_used: dict[KeyName, datetime] = {}
        self._written: dict[KeyName, datetime] = {}
        self._unwritten: set[KeyName] = set()

    def note(self, key_id: str, *, tenant: str, source: str, now: datetime, log: FilteringBoundLogger) -> None:
        key = (tenant, source, key_id)
        self.last_used[key] = now
        self._unwritten.add(key)
        written = self._written.get(key)
        if written is None or now - written >= HOUR:
            self._written[key] = now
            log.info("secret in use", tenant=tenant, source=source, key_id=key_id)

    @asynccontextmanager
    async def running(self, stream: EventStream, *, telemetry: Telemetry, interval_ms: int = INTERVAL_MS) -> AsyncIterator[None]:
        """Writes to the log in the background, and once more at the end."""
        stop = asyncio.Event()

        async def write() -> None:
            await self.write(stream)

        writing = asyncio.create_task(keep_running(write, name="key use", telemetry=telemetry, stop=stop, interval_ms=interval_ms))
        try:
            yield
        finally:
            stop.set()
            await writing
            with suppress(StreamUnavailable):  # Nothing depends on it: the next use is noted again.
                await self.write(stream)

    async def write(self, stream: EventStream) -> None:
        """What was used since the last time; raises StreamUnavailable, and then it is written with what comes next."""
        used, self._unwritten = self._unwritten, set()
        try:
            await stream.note_used({key: to_epoch_ms(self.last_used[key]) for key in used})
        except StreamUnavailable:
            self._unwritten |= used
            raise
