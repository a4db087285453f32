"""Owns making a group that begins with the whole history: where each stream ended at that moment, and whether that is archived. Blocking.

The group stands at the end of each stream; the place is written down by the script that puts it there. What lies at or below it is
brought from the archive, and what comes after it the group reads itself.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import orjson
import redis

from infra.settings import LogSettings
from infra.streams.connection import open_blocking, translated
from infra.streams.incarnations import begun, new_incarnation
from infra.streams.keys import EVENT_STREAMS, Keys
from infra.streams.ledger import numbers_of
from infra.streams.positions import StreamName
from infra.streams.scripts import run_blocking
from schemas.errors import GroupInUse


@dataclass(frozen=True, slots=True)
class Mark:
    """Where a stream ended when the group was made: with this number of this incarnation."""

    stream: str
    """Shard and name, `2:default`."""
    incarnation: str
    number: int
    known: tuple[str, ...]
    """The incarnations that the ledger knew then."""
    later: tuple[str, ...] = ()
    """Those that began since; the group reads all of them itself."""

    def to_json(self) -> dict[str, Any]:
        return {name: list(value) if isinstance(value, tuple) else value for name, value in asdict(self).items()}

    @classmethod
    def from_json(cls, found: dict[str, Any]) -> Mark:
        return cls(found["stream"], found["incarnation"], int(found["number"]), tuple(found["known"]), tuple(found.get("later", ())))


class Histories:
    """Groups that begin with the whole history; raises StreamUnavailable."""

    def __init__(self, client: redis.Redis, *, keys: Keys) -> None:
        self._client = client
        self._keys = keys

    @classmethod
    def open(cls, log: LogSettings, *, home: Path) -> Histories:
        return cls(open_blocking(log, home=home), keys=Keys(log.prefix, log.shards))

    def begin(self, group: str, *, replay: str) -> list[Mark]:
        """Makes the group on every shard, or finds that it was made for this replay; raises GroupInUse when it has read something."""
        for shard in self._keys.all_shards():
            self._make(shard, group=group, replay=replay)
        return self.marks(group, replay=replay)

    def _make(self, shard: int, *, group: str, replay: str) -> None:
        keys = self._keys
        at = [keys.registry(shard), keys.ledger(shard), keys.replays(shard, group), keys.retry(shard, group), keys.replay(shard, group)]
        with translated():
            reply = run_blocking(
                self._client, "begin", keys=[keys.ledger(shard), keys.registry(shard)], args=[new_incarnation(), keys.shards]
            )
            begun(reply, keys=keys)
            made = run_blocking(self._client, "begin_history", keys=[*at, *keys.event_streams(shard)], args=[group, "durable", replay])
        if made != b"made":
            raise GroupInUse(
                f"group {group} was handed events already, so it cannot begin with the whole history: stop its workers, "
                f"`hooklake groups remove {group}`, and start again; or choose another name"
            )

    def marks(self, group: str, *, replay: str) -> list[Mark]:
        """Those that are written down."""
        found: list[Mark] = []
        for shard in self._keys.all_shards():
            with translated():
                stored: Any = self._client.hmget(self._keys.replays(shard, group), [f"mark:{replay}:{name}" for name in EVENT_STREAMS])
            found += [
                Mark.from_json({**orjson.loads(text), "stream": str(StreamName(shard, name))})
                for name, text in zip(EVENT_STREAMS, stored, strict=True)
                if text is not None
            ]
        return found

    def unarchived(self, marks: Iterable[Mark]) -> int:
        """How many numbers up to the marks the archive has not come to."""
        left = 0
        for mark in marks:
            stream = StreamName.parse(mark.stream)
            # A past incarnation whose numbers are forgotten was archived long before.
            for (name, incarnation), numbers in self._numbers(stream.shard).items():
                if name == stream.name and incarnation in (mark.incarnation, *mark.known):
                    last = mark.number if incarnation == mark.incarnation else numbers.given
                    left += max(0, last - numbers.archived)
        return left

    def since(self, marks: Iterable[Mark]) -> list[Mark]:
        """The same marks with the incarnations that began after them.

        To be asked once it is fixed which rows are read: then no row is of an incarnation that began after this look.
        """
        found: list[Mark] = []
        for mark in marks:
            stream = StreamName.parse(mark.stream)
            now = {incarnation for name, incarnation in self._numbers(stream.shard) if name == stream.name}
            found.append(Mark(mark.stream, mark.incarnation, mark.number, mark.known, tuple(sorted(now - {*mark.known, mark.incarnation}))))
        return found

    def _numbers(self, shard: int) -> dict[tuple[str, str], Any]:
        with translated():
            ledger: Any = self._client.hgetall(self._keys.ledger(shard))
        return {**numbers_of(ledger)}

    def close(self) -> None:
        self._client.close()
