"""Owns what the receiver knows about its log: whether it may hold events at all, whether it answers now, and has room."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from pathlib import Path

from infra.log_address import is_cluster
from infra.running.loops import BackOff, keep_running
from infra.settings import LogSettings
from infra.streams.connection import open_blocking
from infra.streams.probe import refuse_unfit, why_alone, why_outdated
from infra.streams.stream import EventStream
from infra.telemetry import Telemetry
from schemas.errors import ConfigError, StreamUnavailable

INTERVAL_MS = 1000
LOOKS_EVERY_S = 10.0
"""Options may be changed under a connection that stays."""
BACK_OFF = BackOff(first_ms=200, cap_ms=1000)


class LogWatch:
    """Looks at the server until it has been found fit, again on every new connection and now and then, and asks each second: is it
    there, has it room?

    A server that comes back may have other options. One that would lose events is given none, as if it were down, until it is fit;
    `hooklake ingest` does not start on such a one, so that a wrong setting is seen at once.
    """

    def __init__(self, log: LogSettings, *, home: Path, stream: EventStream, telemetry: Telemetry) -> None:
        self._log = log
        self._home = home
        self._stream = stream
        self._telemetry = telemetry
        self.is_fit = False
        """Whether the server was found to keep what it is given, when it was looked at last."""
        self._proven = 0
        """The connection on which that was found."""
        self._proving = asyncio.Lock()
        self._answers = False
        self._looked_at = float("-inf")
        self._why_unfit = self._why_outdated = ""
        self._is_alone = False
        self._is_full = False

    @property
    def is_ready(self) -> bool:
        # Other nodes of a cluster may have their replicas, and do their share.
        return self.is_fit and self._answers and (not self._is_alone or is_cluster(self._log.url))

    def refuse_unproven(self) -> None:
        """Raises StreamUnavailable while it is not known whether the log keeps what it is given."""
        if not self.is_fit:
            raise StreamUnavailable("the log has not been found fit to hold events")

    @property
    def is_proven(self) -> bool:
        """Whether the server on the newest connection was found fit, and not unfit since."""
        return self.is_fit and self._stream.generation == self._proven

    async def prove(self) -> None:
        """Raises StreamUnavailable unless the server on the newest connection is fit; to be asked before an append is believed."""
        if not self.is_proven:
            self.refuse_unproven()  # Whoever was on his way when it was found unfit need not look for himself.
            await self._look_again()

    async def _look_again(self) -> None:
        async with self._proving:
            generation, is_due = self._stream.generation, time.monotonic() - self._looked_at > LOOKS_EVERY_S
            if generation != self._proven or not self.is_fit or self._is_alone or is_due:
                await asyncio.to_thread(self.look)
                self._proven = generation

    def look(self) -> None:
        """Blocking; raises StreamUnavailable when the server does not answer, or may lose events."""
        try:
            with closing(open_blocking(self._log, home=self._home)) as client:
                facts = refuse_unfit(client, log=self._log)
        except ConfigError as error:
            self._tell_unfit(str(error))
            raise StreamUnavailable("the log may lose events, so it is given none") from error
        self._looked_at = time.monotonic()
        self._tell_unfit("")
        was_alone, self._is_alone = self._is_alone, bool(reason := why_alone(facts, log=self._log))
        if self._is_alone and not was_alone:
            self._telemetry.log.warning("log has too few replicas", reason=reason)
        was_outdated, self._why_outdated = self._why_outdated, why_outdated(facts)
        if self._why_outdated and self._why_outdated != was_outdated:
            self._telemetry.log.warning("log server outdated", reason=self._why_outdated)

    def _tell_unfit(self, why: str) -> None:
        if why and why != self._why_unfit:
            self._telemetry.log.error("the log may lose events; it is given none", reason=why)
        elif self._why_unfit and not why:
            self._telemetry.log.warning("the log keeps what it is given again")
        self._why_unfit = why
        self.is_fit = not why

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Watches in the background."""
        stop = asyncio.Event()
        looking = keep_running(
            self._step, name="log watch", telemetry=self._telemetry, stop=stop, interval_ms=INTERVAL_MS, back_off=BACK_OFF
        )
        watching = asyncio.create_task(looking)
        try:
            yield
        finally:
            stop.set()
            await watching

    async def _step(self) -> None:
        try:
            await self._look_again()
        finally:
            # Also where that failed: else what was known of the log before would be believed for as long as it is away.
            await self._ask()

    async def _ask(self) -> None:
        self._answers = await self._stream.is_ready()
        if self._answers:
            self._tell_cap(is_full=await self._stream.mind_hard_cap(self._log))

    def _tell_cap(self, *, is_full: bool) -> None:
        if is_full != self._is_full:
            self._telemetry.log.warning("the log is above its hard cap" if is_full else "the log is below its hard cap again")
        self._is_full = is_full
        self._answers = not is_full
