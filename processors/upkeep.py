"""Owns what every worker does for the log and for its operators while it works: promoting, trimming, reaping, telling.

Each act is one script, so that several workers do no harm to each other.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from infra.settings import LogSettings
from infra.streams import groups, janitor
from infra.streams.caps import mind_hard_cap
from infra.streams.delayed import promote_due
from infra.streams.group_removal import reap_groups
from infra.streams.keys import Keys
from infra.streams.lag import read_lag
from infra.streams.parked import Parked
from infra.streams.pipelining import Pipeline
from infra.streams.spill import make_room
from infra.telemetry import Telemetry
from processors.settings import DeadLetterSettings

Chore = tuple[str, Callable[[], Awaitable[None]], int]
"""Its name, one round of it, and the milliseconds between rounds."""


class Upkeep:
    """The chores of one worker."""

    def __init__(
        self, acts: Pipeline, *, keys: Keys, group: str, log: LogSettings, dead_letters: DeadLetterSettings, telemetry: Telemetry
    ) -> None:
        self._acts = acts
        self._log = log
        self._keys = keys
        self._group = group
        self._dead_letters = dead_letters
        self._telemetry = telemetry
        self._parked = Parked(acts, keys=keys, group=group)

    def chores(self) -> list[Chore]:
        return [
            ("promote", self.promote, 100),
            ("parked", self._take_parked_back, 1000),
            ("trim", self._trim, 1000),
            ("room", self._make_room, 1000),
            ("lag", self._show_lag, 2000),
            ("groups", self._look_after_groups, 5000),
            ("reap", self._reap, 60_000),
        ]

    async def promote(self) -> None:
        """Hands out what is due by the server's clock."""
        await promote_due(self._acts, keys=self._keys)

    async def _take_parked_back(self) -> None:
        if taken := await self._parked.take_back():
            self._telemetry.log.info("parked entries taken back", group=self._group, entries=taken)

    async def _trim(self) -> None:
        await janitor.trim(self._acts, keys=self._keys)
        await janitor.trim_dead(self._acts, keys=self._keys, retention_ms=self._dead_letters.retention_ms)

    async def _make_room(self) -> None:
        await mind_hard_cap(self._acts, keys=self._keys, log=self._log)
        for done in await make_room(self._acts, keys=self._keys, log=self._log):
            said = {"stream": done.stream, "owed": done.owed, "trimmed": done.trimmed}
            self._telemetry.log.warning("log above its soft cap: archived events taken from groups that lag", **said)

    async def _look_after_groups(self) -> None:
        await groups.note_alive(self._acts, keys=self._keys, group=self._group)
        for group in await reap_groups(self._acts, keys=self._keys):
            self._telemetry.log.warning("ephemeral group removed, nobody read it", group=group)

    async def _reap(self) -> None:
        await janitor.reap(self._acts, keys=self._keys, group=self._group)

    async def _show_lag(self) -> None:
        for at in await read_lag(self._acts, keys=self._keys, group=self._group):
            if at.unsettled is not None:
                self._telemetry.lag.set(at.unsettled, {"group": at.group, "stream": at.stream})
