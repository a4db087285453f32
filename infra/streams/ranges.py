"""Owns the archive's side of the log: where streams end, fixed ranges of entries, and moving the group. Blocking.

A range of entry ids gives the same entries however often it is read; reading as a group would not. The group is only
moved, after the fact, to what is synced in the table.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import redis

from infra.settings import LogSettings
from infra.streams.connection import open_blocking, translated
from infra.streams.entries import Entry, Fields
from infra.streams.groups import declare_archive
from infra.streams.keys import ARCHIVE_GROUP, EVENT_STREAMS, Keys
from infra.streams.ledger import Counts, read_counts
from infra.streams.positions import Position, StreamName, id_order
from infra.streams.scripts import run_blocking
from infra.streams.stream import begun, new_incarnation


@dataclass(frozen=True, slots=True)
class StreamEnd:
    """The newest entry of a stream; `last.sequence` counts within the shard's present incarnation."""

    stream: StreamName
    last: Position

    @property
    def incarnation(self) -> str:
        return self.last.incarnation


class ArchiveLog:
    """The log as the archive sees it; raises StreamUnavailable. Not for pickling: open it where it is used."""

    def __init__(self, client: redis.Redis, *, keys: Keys) -> None:
        self._client = client
        self._keys = keys

    @classmethod
    def open(cls, log: LogSettings, *, home: Path) -> ArchiveLog:
        return cls(open_blocking(log, home=home), keys=Keys(log.prefix, log.shards))

    def ends(self) -> list[StreamEnd]:
        """Where every event stream ends now; begins the shards and declares the group when they are new."""
        with translated():
            declare_archive(self._client, keys=self._keys)
            return [end for shard in self._keys.all_shards() for end in self._ends_of(shard)]

    def _ends_of(self, shard: int) -> list[StreamEnd]:
        ledger, registry = self._keys.ledger(shard), self._keys.registry(shard)
        # begin is asked every time: this client reconnects by itself, and a new connection may lead to a new server.
        begun(run_blocking(self._client, "begin", keys=[ledger, registry], args=[new_incarnation(), self._keys.shards]), keys=self._keys)
        incarnation, *ends = run_blocking(self._client, "ends", keys=[ledger, *self._keys.event_streams(shard)], args=EVENT_STREAMS)
        return [
            StreamEnd(StreamName(shard, name), Position(incarnation.decode(), entry_id.decode(), int(number)))
            for name, (entry_id, number) in zip(EVENT_STREAMS, ends, strict=True)
        ]

    def read(self, stream: StreamName, *, after: str, to: str, count: int = 2000) -> Iterator[list[Entry]]:
        """The entries in (after, to], in chunks."""
        key, start = self._keys.events(stream.shard, stream.name), f"({after}"
        while True:
            with translated():
                entries = [Entry(entry_id.decode(), fields) for entry_id, fields in self._range(key, start, to, count=count)]
            if entries:
                yield entries
            if len(entries) < count:
                return
            start = f"({entries[-1].id}"

    def id_after(self, stream: StreamName, *, after: str, to: str, entries: int) -> str:
        """An entry id in (after, to] below which about `entries` lie; found by bisecting time, since numbers are gapless."""
        first = self._number_at(stream, f"({after}", to)
        if first is None:
            return to
        low_ms, high_ms, best = id_order(after)[0], id_order(to)[0], to
        while low_ms + 1 < high_ms:
            middle_ms = (low_ms + high_ms) // 2
            found = self._number_at(stream, f"{middle_ms}-0", to)
            if found is None or found[1] != first[1] or found[2] - first[2] > entries:
                high_ms = middle_ms
                best = found[0] if found is not None else best
            else:
                low_ms = middle_ms
        return best

    def position_at(self, stream: StreamName, *, entry_id: str, incarnation: str) -> Position:
        """The position of an entry that exists; its number counts as 0 when it belongs to a past incarnation."""
        found = self._number_at(stream, entry_id, entry_id)
        return Position(incarnation, entry_id, found[2] if found is not None and found[1] == incarnation else 0)

    def _number_at(self, stream: StreamName, start: str, to: str) -> tuple[str, str, int] | None:
        """The first entry from `start` on: its id, incarnation and number."""
        with translated():
            key = self._keys.events(stream.shard, stream.name)
            found = self._range(key, start, to, count=1)
        if not found:
            return None
        entry_id, fields = found[0]
        return entry_id.decode(), fields.get(b"incarnation", b"").decode(), int(fields.get(b"sequence", b"0"))

    def _range(self, key: str, start: str, to: str, *, count: int) -> list[tuple[bytes, Fields]]:
        found: Any = self._client.xrange(key, min=start, max=to, count=count)
        return list(found)

    def move(self, positions: Mapping[StreamName, Position]) -> None:
        """Moves the group to positions that are synced in the table; repeating it is harmless."""
        with translated():
            for stream, at in positions.items():
                run_blocking(
                    self._client,
                    "move",
                    keys=[self._keys.ledger(stream.shard), self._keys.events(stream.shard, stream.name)],
                    args=[ARCHIVE_GROUP, stream.name, at.incarnation, at.entry_id, at.sequence],
                )

    def note_rows(self, rows: int) -> None:
        """Writes down how many rows the table has after the newest commit, for whoever balances the books."""
        with translated():
            self._client.hset(self._keys.ledger(0), "rows:events", str(rows))

    def accepted(self) -> dict[tuple[str, str], int]:
        """How many events were accepted, by tenant and source."""
        return self.counts().accepted

    def counts(self) -> Counts:
        with translated():
            return read_counts(self._client, keys=self._keys)

    def trim(self) -> int:
        """Removes what every group, this one included, is done with; returns how many entries went."""
        with translated():
            return sum(
                run_blocking(self._client, "trim", keys=[stream, self._keys.registry(shard)], args=[])
                for shard in self._keys.all_shards()
                for stream in self._keys.event_streams(shard)
            )

    def close(self) -> None:
        self._client.close()
