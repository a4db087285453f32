"""Owns the log's housekeeping in a process that has no event loop, the archive's: a thread with a loop and a connection of its own.

Refused requests are trimmed here alone: only those that are archived are, and workers need not know for how long they are kept.
"""

from __future__ import annotations

import asyncio
import threading
from types import TracebackType

from infra.running.loops import keep_running
from infra.sections import DeadLetterSettings, QuarantineSettings
from infra.settings import Settings
from infra.streams import janitor
from infra.streams.connection import open_pipeline
from infra.streams.housekeeping import Chore, Housekeeping
from infra.streams.keys import Keys
from infra.streams.pipelining import Pipeline
from infra.telemetry import Telemetry

ENDS_WITHIN_S = 10.0


class Housekeeper:
    """Runs from `start` to `stop`, or for a block."""

    def __init__(self, settings: Settings, *, telemetry: Telemetry) -> None:
        self._settings = settings
        self._dead_letters = settings.section("dead_letters", DeadLetterSettings)
        self._kept_ms = settings.section("quarantine", QuarantineSettings).retention_ms
        self._telemetry = telemetry
        self._loop = asyncio.new_event_loop()
        self._stop = asyncio.Event()
        self._thread = threading.Thread(target=self._run, name="housekeeper", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Ends the round that is under way, and lets another process lead."""
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(ENDS_WITHIN_S)

    def __enter__(self) -> None:
        self.start()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.stop()

    def _run(self) -> None:
        try:
            self._loop.run_until_complete(self._keep_house())
        finally:
            self._loop.close()

    async def _keep_house(self) -> None:
        log = self._settings.log
        pipeline = open_pipeline(log, home=self._settings.home)
        keys = Keys(log.prefix, log.shards)
        house = Housekeeping(pipeline, keys=keys, log=log, dead_letters=self._dead_letters, telemetry=self._telemetry)
        rounds = [
            keep_running(chore, name=f"housekeeping.{name}", telemetry=self._telemetry, stop=self._stop, interval_ms=every_ms)
            for name, chore, every_ms in [*house.chores(), self._quarantine_chore(pipeline, keys=keys)]
        ]
        await asyncio.gather(*rounds)
        await house.end()
        await pipeline.close()

    def _quarantine_chore(self, pipeline: Pipeline, *, keys: Keys) -> Chore:
        async def trim() -> None:
            await janitor.trim_quarantine(pipeline, keys=keys, retention_ms=self._kept_ms)

        return "quarantine", trim, 10_000
