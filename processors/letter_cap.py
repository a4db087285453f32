"""Owns the bound of a group's dead letters: at the cap its workers take in no more, until somebody has decided about some of them.

Nothing is dropped and nothing is charged: what was not taken in waits in the log. What is in hand when the cap is reached may
still become dead letters, and so may what comes between two looks.
"""

from __future__ import annotations

from collections.abc import Iterable

from infra.streams.keys import Keys
from infra.streams.pipelining import Pipeline
from infra.telemetry import Telemetry

LOOK_EVERY_MS = 250


class LetterCap:
    """How many open dead letters a group has, as one worker knows it; `look` raises StreamUnavailable."""

    def __init__(self, acts: Pipeline, *, keys: Keys, group: str, cap: int, telemetry: Telemetry) -> None:
        self._acts = acts
        self._keys = keys
        self._group = group
        self._cap = cap
        self._telemetry = telemetry
        self.is_reached = False

    async def look(self) -> None:
        fields = (f"dead:{self._group}", f"closed:{self._group}")
        counts = [await self._acts.call("HMGET", self._keys.ledger(shard), *fields) for shard in self._keys.all_shards()]
        is_open = open_letters(counts)
        was_reached, self.is_reached = self.is_reached, is_open >= self._cap
        said = {"group": self._group, "open": is_open, "cap": self._cap}
        if self.is_reached and not was_reached:
            self._telemetry.log.error("dead letters are at their cap, so nothing more is taken in: requeue or discard some", **said)
        elif was_reached and not self.is_reached:
            self._telemetry.log.info("dead letters are below their cap, so events are taken in again", **said)


def open_letters(counts: Iterable[tuple[bytes | None, bytes | None]]) -> int:
    """Letters written less those decided about or past their retention, of all shards. Pure."""
    return sum(int(dead or 0) - int(closed or 0) for dead, closed in counts)
