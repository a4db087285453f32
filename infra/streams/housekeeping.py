"""Owns the log's housekeeping: what keeps it small and moving, done by one process at a time, whichever of workers and archive lives.

All of them ask for a short lease again and again, and who holds it does the chores; when it dies the next one goes on within
seconds. Each act is one script, so two who both believe that they hold the lease do no harm.
"""

from __future__ import annotations

import contextlib
import os
import socket
from collections.abc import Awaitable, Callable

from infra.clock import Clock
from infra.sections import DeadLetterSettings, LogSettings
from infra.streams import janitor
from infra.streams.caps import mind_hard_cap
from infra.streams.delayed import promote_due
from infra.streams.group_removal import reap_groups
from infra.streams.keys import Keys
from infra.streams.pipelining import Pipeline
from infra.streams.spill import make_room
from infra.telemetry import Telemetry
from schemas.errors import StreamUnavailable

LEASE_MS = 2000
ASK_EVERY_MS = 500

Chore = tuple[str, Callable[[], Awaitable[None]], int]
"""Its name, one round of it, and the milliseconds between rounds."""


class Housekeeping:
    """The chores of one process; raises StreamUnavailable."""

    def __init__(
        self,
        acts: Pipeline,
        *,
        keys: Keys,
        log: LogSettings,
        dead_letters: DeadLetterSettings,
        telemetry: Telemetry,
        clock: Clock | None = None,
    ) -> None:
        self._acts = acts
        self._keys = keys
        self._log = log
        self._dead_letters = dead_letters
        self._telemetry = telemetry
        self._clock = clock or Clock()
        self._name = f"{socket.gethostname()}:{os.getpid()}:{os.urandom(4).hex()}"
        self._leads_until = 0.0

    def chores(self) -> list[Chore]:
        return [
            ("lead", self.ask_to_lead, ASK_EVERY_MS),
            # What is due is at most so late.
            ("promote", self._when_leading(self.promote), 100),
            ("trim", self._when_leading(self.trim), 1000),
            ("room", self._when_leading(self.make_room), 1000),
            ("ephemeral", self._when_leading(self._remove_ephemeral), 2000),
            ("reap", self._when_leading(self._reap), 60_000),
        ]

    @property
    def leads(self) -> bool:
        return self._clock.monotonic() < self._leads_until

    async def ask_to_lead(self) -> None:
        """Takes the lease, or keeps it."""
        asked_at = self._clock.monotonic()
        held = await self._acts.run("hold", keys=[self._keys.housekeeper()], args=[self._name, LEASE_MS])
        self._leads_until = asked_at + LEASE_MS / 1000 if held else 0.0

    async def end(self) -> None:
        """Lets the next one lead at once; without a log the lease runs out by itself."""
        self._leads_until = 0.0
        with contextlib.suppress(StreamUnavailable):
            await self._acts.run("hold", keys=[self._keys.housekeeper()], args=[self._name, 0])

    def _when_leading(self, chore: Callable[[], Awaitable[None]]) -> Callable[[], Awaitable[None]]:
        async def when_leading() -> None:
            if self.leads:
                await chore()

        return when_leading

    async def promote(self) -> None:
        """Hands out what is due by the server's clock."""
        await promote_due(self._acts, keys=self._keys)

    async def trim(self) -> None:
        """Notes how far groups are, and removes what nobody needs any more."""
        await janitor.trim(self._acts, keys=self._keys)
        await janitor.trim_dead(self._acts, keys=self._keys, retention_ms=self._dead_letters.retention_ms)
        await janitor.trim_outcomes(self._acts, keys=self._keys)

    async def make_room(self) -> None:
        """Keeps the log below its caps."""
        await mind_hard_cap(self._acts, keys=self._keys, log=self._log)
        for done in await make_room(self._acts, keys=self._keys, log=self._log):
            said = {"stream": done.stream, "owed": done.owed, "trimmed": done.trimmed}
            self._telemetry.log.warning("log above its soft cap: archived events taken from groups that lag", **said)

    async def _remove_ephemeral(self) -> None:
        for group in await reap_groups(self._acts, keys=self._keys):
            self._telemetry.log.warning("ephemeral group removed, nobody read it", group=group)

    async def _reap(self) -> None:
        for group in await janitor.declared_groups(self._acts, keys=self._keys, shard=0):
            await janitor.reap(self._acts, keys=self._keys, group=group)
