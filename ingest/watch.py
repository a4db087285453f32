"""Owns what the receiver knows about its log: whether it may hold events at all, whether it answers now, and has room."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
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
BACK_OFF = BackOff(first_ms=200, cap_ms=1000)


class LogWatch:
    """Looks at the server until it has been found fit, again on every new connection, and asks each second: is it there, has it room?

    A log that is down does not keep a receiver from starting; one that would lose events does, also when it is met
    only later: until it is proven fit nothing is accepted. A server that comes back may have other options.
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
        self._is_alone = False
        self._is_full = False
        self.verdict: ConfigError | None = None
        """Why the receiver stopped itself, if it did."""

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
        """Whether the server on the newest connection was found fit."""
        return self._stream.generation == self._proven

    async def prove(self) -> None:
        """Raises StreamUnavailable unless the server on the newest connection is fit; to be asked before an append is believed."""
        if self.is_proven:
            return
        try:
            await self._look_again()
        except ConfigError as error:
            self.is_fit = False
            raise StreamUnavailable("the log came back as one that may lose events") from error

    async def _look_again(self) -> None:
        async with self._proving:
            generation = self._stream.generation
            if generation != self._proven or not self.is_fit or self._is_alone:
                await asyncio.to_thread(self.look)
                self._proven = generation

    def look(self) -> None:
        """Blocking; raises ConfigError when the server is unfit and StreamUnavailable when it does not answer."""
        client = open_blocking(self._log, home=self._home)
        try:
            facts = refuse_unfit(client, log=self._log)
        finally:
            client.close()
        self.is_fit = True
        was_alone, self._is_alone = self._is_alone, bool(reason := why_alone(facts, log=self._log))
        if self._is_alone and not was_alone:
            self._telemetry.log.warning("log has too few replicas", reason=reason)
        if reason := why_outdated(facts):
            self._telemetry.log.warning("log server outdated", reason=reason)

    @asynccontextmanager
    async def running(self, *, on_unfit: Callable[[], None] = lambda: signal.raise_signal(signal.SIGTERM)) -> AsyncIterator[None]:
        """Watches in the background; `on_unfit` ends the process in order, which then exits with the verdict."""
        stop = asyncio.Event()
        watching = asyncio.create_task(self._watch(stop, on_unfit=on_unfit))
        try:
            yield
        finally:
            stop.set()
            await watching

    async def _watch(self, stop: asyncio.Event, *, on_unfit: Callable[[], None]) -> None:
        try:
            await keep_running(
                self._step, name="log watch", telemetry=self._telemetry, stop=stop, interval_ms=INTERVAL_MS, back_off=BACK_OFF
            )
        except ConfigError as error:
            self.verdict = error
            on_unfit()

    async def _step(self) -> None:
        await self._look_again()
        self._answers = await self._stream.is_ready()
        if self._answers:
            self._tell_cap(is_full=await self._stream.mind_hard_cap(self._log))

    def _tell_cap(self, *, is_full: bool) -> None:
        if is_full != self._is_full:
            self._telemetry.log.warning("the log is above its hard cap" if is_full else "the log is below its hard cap again")
        self._is_full = is_full
        self._answers = not is_full
