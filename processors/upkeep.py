"""Owns what a worker does for its group and for its operators while it works; with others it shares the log's housekeeping."""

from __future__ import annotations

from infra.sections import DeadLetterSettings, LogSettings
from infra.streams import groups
from infra.streams.housekeeping import Chore, Housekeeping
from infra.streams.keys import Keys
from infra.streams.lag import read_lag
from infra.streams.parked import Parked
from infra.streams.pipelining import Pipeline
from infra.telemetry import Telemetry


class Upkeep:
    """The chores of one worker."""

    housekeeping: type[Housekeeping] = Housekeeping

    def __init__(
        self, acts: Pipeline, *, keys: Keys, group: str, log: LogSettings, dead_letters: DeadLetterSettings, telemetry: Telemetry
    ) -> None:
        self._acts = acts
        self._keys = keys
        self._group = group
        self._telemetry = telemetry
        self._parked = Parked(acts, keys=keys, group=group)
        self._house = self.housekeeping(acts, keys=keys, log=log, dead_letters=dead_letters, telemetry=telemetry)

    def chores(self) -> list[Chore]:
        return [
            *self._house.chores(),
            ("parked", self._take_parked_back, 1000),
            ("lag", self._show_lag, 2000),
            ("alive", self._say_that_we_live, 5000),
        ]

    async def end(self) -> None:
        await self._house.end()

    async def _take_parked_back(self) -> None:
        if taken := await self._parked.take_back():
            self._telemetry.log.info("parked entries taken back", group=self._group, entries=taken)

    async def _say_that_we_live(self) -> None:
        await groups.note_alive(self._acts, keys=self._keys, group=self._group)

    async def _show_lag(self) -> None:
        for at in await read_lag(self._acts, keys=self._keys, group=self._group):
            if at.unsettled is not None:
                self._telemetry.lag.set(at.unsettled, {"group": at.group, "stream": at.stream})
