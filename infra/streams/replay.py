"""Owns handing archived events to one group, through its own stream in each shard: exactly once, in order, and never too many. Blocking.

Settling deletes what stands on such a stream, so its length is what the group has not settled. How far a replay has come is written
by the script that appends: whoever goes on after a kill, or beside another, hands nothing twice.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, NamedTuple

import redis

from infra.settings import LogSettings
from infra.streams.connection import open_blocking, translated
from infra.streams.keys import Keys
from infra.streams.scripts import Argument, run_blocking

REPLAY_FIELD = "replay"
"""The entry's field that names the replay; a retry and a dead letter of it have the field too."""
END = "end"


@dataclass(frozen=True, slots=True)
class Limits:
    """How much may wait for the group on its replay stream of one shard."""

    entries: int = 10_000
    size_bytes: int = 64 * 1024 * 1024


class Replayed(NamedTuple):
    """An archived event on its way to a group."""

    place: str
    """Where it stands in the replay; what follows it in the same shard has a later one."""
    origin: str
    """The entry id it had: a fence token is made of the id it gets, which must be above."""
    packed: bytes
    """What `EVENT_FIELDS` are, in their order, as `packed` writes them; their names stand in the script."""
    further: Sequence[Argument] = ()
    """Field, value, ... of what else it has."""


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a replay has come in one shard."""

    count: int = 0
    place: str = ""
    """Of the last event that the group was given; empty before the first, `end` after the last."""

    @property
    def is_done(self) -> bool:
        return self.place == END

    def __str__(self) -> str:
        return f"{self.count}|{self.place}"

    @classmethod
    def parse(cls, text: str) -> Progress:
        count, _, place = text.partition("|")
        return cls(int(count), place)


@dataclass(frozen=True, slots=True)
class Handed:
    """What a call has done."""

    status: Literal["appended", "moved", "full", "gone"]
    progress: Progress
    appended: int = 0


def packed(values: Sequence[Argument]) -> bytes:
    """Each behind its length, as the script takes them: client and server have more work with sixteen arguments than with one. Pure."""
    texts = [value if isinstance(value, bytes) else str(value).encode() for value in values]
    return b"".join(part for text in texts for part in (struct.pack("<I", len(text)), text))


class ReplayStream:
    """The replay streams of one group, for one replay; raises StreamUnavailable. Open it where it is used: it cannot be pickled."""

    def __init__(self, client: redis.Redis, *, keys: Keys, group: str, replay: str, limits: Limits) -> None:
        self._client = client
        self._keys = keys
        self._group = group
        self._replay = replay
        self._limits = limits

    @classmethod
    def open(cls, log: LogSettings, *, home: Path, group: str, replay: str, limits: Limits) -> ReplayStream:
        keys = Keys(log.prefix, log.shards)
        return cls(open_blocking(log, home=home), keys=keys, group=group, replay=replay, limits=limits)

    def progress(self, shard: int) -> Progress | None:
        """None when there is no such replay any more."""
        with translated():
            found: Any = self._client.hget(self._keys.replays(shard, self._group), f"at:{self._replay}")
        return Progress.parse(found.decode()) if found is not None else None

    def hand(self, shard: int, *, events: Sequence[Replayed], since: Progress, is_end: bool = False) -> Handed:
        """Appends as many of the events as there is room for, in their order, if nobody has gone on since."""
        args: list[Argument] = [
            self._group, self._replay, str(since), self._limits.entries, self._limits.size_bytes, END if is_end else "",
        ]  # fmt: skip
        for event in events:
            args += (event.place, event.origin, event.packed, len(event.further), *event.further)
        with translated():
            status, progress, *appended = run_blocking(self._client, "replay", keys=self._at(shard), args=args)
        known = Progress.parse(progress.decode()) if progress else since
        return Handed(status.decode(), known, appended[0] if appended else 0)

    def _at(self, shard: int) -> list[str]:
        keys, group = self._keys, self._group
        return [keys.replay(shard, group), keys.replays(shard, group), keys.retry(shard, group), keys.ledger(shard), keys.registry(shard)]

    def close(self) -> None:
        self._client.close()
