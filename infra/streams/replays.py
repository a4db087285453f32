"""Owns what the log remembers of replays: what each is, who began it, how far it has come; in one hash for each group and shard. Blocking.

A replay is known by shard 0, and each shard knows how far it has come there; so a group that is removed takes them with it.
"""

from __future__ import annotations

import secrets
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson
import redis

from infra.settings import LogSettings
from infra.streams.connection import open_blocking, translated
from infra.streams.keys import ARCHIVE_GROUP, Keys
from infra.streams.replay import Progress

KEPT = 50
"""Replays of one group that are remembered after their end."""

About = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Replay:
    """One replay: what its caller wrote about it, and how far it has come in each shard."""

    id: str
    group: str
    about: About
    progress: dict[int, Progress]

    @property
    def handed(self) -> int:
        return sum(one.count for one in self.progress.values())

    @property
    def is_done(self) -> bool:
        return all(one.is_done for one in self.progress.values())


class Replays:
    """The replays of one log; raises StreamUnavailable."""

    def __init__(self, client: redis.Redis, *, keys: Keys) -> None:
        self._client = client
        self._keys = keys

    @classmethod
    def open(cls, log: LogSettings, *, home: Path) -> Replays:
        return cls(open_blocking(log, home=home), keys=Keys(log.prefix, log.shards))

    def groups(self) -> list[str]:
        """The groups of workers that are declared."""
        with translated():
            fields: Any = self._client.hkeys(self._keys.registry(0))
        names = (field.decode().removeprefix("group:") for field in fields if field.startswith(b"group:"))
        return sorted(name for name in names if name != ARCHIVE_GROUP)

    def begin(self, group: str, *, about: About, replay: str = "") -> Replay:
        """Writes a replay down that has not handed anything yet; older ones that are done are forgotten, but for the newest."""
        replay = replay or new_replay()
        self._forget_old(group)
        with translated():
            # Before shard 0 knows it there is no such replay, and a shard that does not know it takes nothing: it can be begun again.
            for shard in reversed(self._keys.all_shards()):
                self._client.hsetnx(self._keys.replays(shard, group), f"at:{replay}", str(Progress()))
            self._client.hset(self._keys.replays(0, group), f"about:{replay}", orjson.dumps(about))
        return Replay(replay, group, about, dict.fromkeys(self._keys.all_shards(), Progress()))

    def note(self, replay: Replay, *, about: About) -> Replay:
        """Writes down more about it."""
        with translated():
            self._client.hset(self._keys.replays(0, replay.group), f"about:{replay.id}", orjson.dumps(about))
        return Replay(replay.id, replay.group, about, replay.progress)

    def of(self, group: str) -> list[Replay]:
        """Those of one group, the newest first."""
        with translated():
            found: list[dict[bytes, bytes]] = [
                self._client.hgetall(self._keys.replays(shard, group))  # type: ignore[misc]
                for shard in self._keys.all_shards()
            ]
        known = {name.decode().removeprefix("about:"): value for name, value in found[0].items() if name.startswith(b"about:")}
        replays = [
            Replay(name, group, orjson.loads(about), {shard: _progress(of, name=name) for shard, of in enumerate(found)})
            for name, about in known.items()
        ]
        return sorted(replays, key=lambda one: str(one.about.get("started_at", "")), reverse=True)

    def all(self) -> list[Replay]:
        return [replay for group in self.groups() for replay in self.of(group)]

    def find(self, name: str) -> Replay | None:
        return next((one for one in self.all() if one.id == name), None)

    def forget(self, replay: Replay) -> None:
        """Nothing more is handed of it; what the group was given stays."""
        with translated():
            for shard in self._keys.all_shards():
                key = self._keys.replays(shard, replay.group)
                fields: Any = self._client.hkeys(key)
                marks = [name for name in fields if name.startswith(f"mark:{replay.id}:".encode())]
                self._client.hdel(key, f"about:{replay.id}", f"at:{replay.id}", *marks)

    def _forget_old(self, group: str) -> None:
        for replay in [one for one in self.of(group) if one.is_done][KEPT:]:
            self.forget(replay)

    def waiting(self, group: str) -> int:
        """How many replayed events the group has not settled."""
        with translated():
            return sum(int(self._client.xlen(self._keys.replay(shard, group))) for shard in self._keys.all_shards())

    def close(self) -> None:
        self._client.close()


def _progress(of_shard: dict[bytes, bytes], *, name: str) -> Progress:
    return Progress.parse(of_shard.get(f"at:{name}".encode(), b"0|").decode())


def new_replay() -> str:
    return secrets.token_hex(4)
