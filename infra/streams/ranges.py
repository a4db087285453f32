"""Owns the archive's side of the log: where streams end, fixed ranges of entries, and moving the group. Blocking.

A range of entry ids gives the same entries however often it is read; reading as a group would not. The group is only
moved, after the fact, to what is synced in the table.
"""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple

import redis

from infra.failpoints import reach
from infra.settings import LogSettings
from infra.streams.connection import open_blocking, translated
from infra.streams.delayed import promote_due_blocking
from infra.streams.entries import Entry, Fields
from infra.streams.groups import declare_again, declare_archive
from infra.streams.incarnations import begun, new_incarnation
from infra.streams.keys import ARCHIVE_GROUP, ARCHIVED_STREAMS, EVENT_STREAMS, Keys
from infra.streams.ledger import Counts, numbers_of, read_counts
from infra.streams.positions import START, Position, StreamName, id_order
from infra.streams.scripts import run_blocking
from infra.streams.settled import Owing, Settled, of_streams, read_settled

# A reply is made whole in the server's memory before it is sent. How much the next entries weigh is not known before they
# are read, so even after the smallest ones no more are asked for than would do no harm if they were large.
FIRST_COUNT = 8
MOST_COUNT = 64
REPLY_BYTES = 4 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class StreamEnd:
    """The newest entry of a stream; `last.sequence` counts within the shard's present incarnation."""

    stream: StreamName
    last: Position
    given: Mapping[str, int] = field(default_factory=dict)
    """The last number of every incarnation that the ledger knows."""

    @property
    def incarnation(self) -> str:
        return self.last.incarnation


@dataclass(frozen=True, slots=True)
class Look:
    """What the archive sees of the log at one moment."""

    ends: list[StreamEnd]
    accepted: dict[int, int]
    """How many events each shard's ledger has counted."""
    has_new_groups: bool = False
    """Whether a stream lacked the archive's group, which then stands at the stream's beginning."""
    settled: Settled = field(default_factory=dict)

    def of(self, streams: Collection[str]) -> Look:
        """What it says of these streams; only events are counted as accepted. Pure."""
        ends = [end for end in self.ends if end.stream.name in streams]
        accepted = self.accepted if set(streams) & set(EVENT_STREAMS) else {}
        return replace(self, ends=ends, accepted=accepted, settled=of_streams(self.settled, [end.stream for end in ends]))


class _Numbered(NamedTuple):
    """An entry that has a number; foreign entries have none."""

    entry_id: str
    incarnation: str
    number: int


class ArchiveLog:
    """The log as the archive sees it; raises StreamUnavailable. Not for pickling: open it where it is used."""

    def __init__(self, client: redis.Redis, *, keys: Keys) -> None:
        self._client = client
        self._keys = keys
        # A dictionary of each entry would cost more than all the rest of reading it. A cluster's client makes one all the same.
        client.set_response_callback("XRANGE", lambda reply, **_: reply)

    @classmethod
    def open(cls, log: LogSettings, *, home: Path) -> ArchiveLog:
        return cls(open_blocking(log, home=home), keys=Keys(log.prefix, log.shards))

    def look(self) -> Look:
        """Where every stream ends now, with what was due; begins the shards and declares the group when they are new."""
        with translated():
            # begin is asked every time: this client reconnects by itself, and a new connection may lead to a new server.
            for shard in self._keys.all_shards():
                self._begin(shard)
            created = declare_archive(self._client, keys=self._keys)
            # A delayed set that makes no sense must not keep the archive from emptying the log; `status` shows it.
            with contextlib.suppress(redis.ResponseError):
                promote_due_blocking(self._client, keys=self._keys)
            # Before the ends: what a group settles in between is owed to it rather than taken for settled.
            settled = read_settled((shard, self._settled(shard)) for shard in self._keys.all_shards())
            found = [self._look_at(shard) for shard in self._keys.all_shards()]
        ends = [end for ends, _ in found for end in ends]
        return Look(ends, dict(enumerate(accepted for _, accepted in found)), has_new_groups=created > 0, settled=settled)

    def ends(self) -> list[StreamEnd]:
        return self.look().ends

    def _begin(self, shard: int) -> None:
        at = [self._keys.ledger(shard), self._keys.registry(shard)]
        begun(run_blocking(self._client, "begin", keys=at, args=[new_incarnation(), self._keys.shards]), keys=self._keys)

    def _settled(self, shard: int) -> Any:
        at = [self._keys.registry(shard), self._keys.ledger(shard), *self._keys.event_streams(shard)]
        return run_blocking(self._client, "settled", keys=at, args=[])

    def _look_at(self, shard: int) -> tuple[list[StreamEnd], int]:
        at = [self._keys.ledger(shard), *self._keys.archived_streams(shard)]
        incarnation, accepted, *ends = run_blocking(self._client, "ends", keys=at, args=ARCHIVED_STREAMS)
        found = [
            _stream_end(StreamName(shard, name), incarnation=incarnation.decode(), entry_id=entry_id.decode(), flat=numbers)
            for name, (entry_id, numbers) in zip(ARCHIVED_STREAMS, ends, strict=True)
        ]
        return found, accepted

    def read(self, stream: StreamName, *, after: str, to: str) -> Iterator[list[Entry]]:
        """The entries in (after, to], in replies that keep to some megabytes whatever the entries weigh."""
        key, start, count = self._keys.archived(stream.shard, stream.name), f"({after}", FIRST_COUNT
        while True:
            with translated():
                found: Any = self._client.xrange(key, min=start, max=to, count=count)
            entries = [_entry(entry_id.decode(), fields) for entry_id, fields in found]
            if entries:
                yield entries
            if len(entries) < count:
                return
            start, count = f"({entries[-1].id}", next_count(entries)

    def id_after(self, stream: StreamName, *, after: str, to: str, entries: int) -> str:
        """The entry id in (after, to] up to which `entries` of one incarnation lie; found by bisecting, since numbers are gapless."""
        first = self._first_numbered(stream, start=f"({after}", to=to)
        if first is None:
            return to
        low, high, best = _place(first.entry_id), _place(to), to
        if entries <= 1:
            return first.entry_id
        while low + 1 < high:
            middle = (low + high) // 2
            found = self._first_numbered(stream, start=_id_at(middle), to=to)
            if found is None or found.incarnation != first.incarnation or found.number - first.number >= entries - 1:
                high = middle
                best = found.entry_id if found is not None else best
            else:
                low = middle
        return best

    def position_at(self, stream: StreamName, *, entry_id: str, incarnation: str) -> Position:
        """The position at an entry id, in terms of `incarnation`: the number is the last one given up to there.

        That is 0 among entries of past incarnations, and the number before it at a foreign entry, which has none.
        """
        found = self._last_numbered(stream, to=entry_id)
        return Position(incarnation, entry_id, found.number if found is not None and found.incarnation == incarnation else 0)

    def _first_numbered(self, stream: StreamName, *, start: str, to: str) -> _Numbered | None:
        return self._nearest_numbered(stream, command="XRANGE", start=start, end=to)

    def _last_numbered(self, stream: StreamName, *, to: str) -> _Numbered | None:
        return self._nearest_numbered(stream, command="XREVRANGE", start=to, end="-")

    def _nearest_numbered(self, stream: StreamName, *, command: str, start: str, end: str) -> _Numbered | None:
        key = self._keys.archived(stream.shard, stream.name)
        while True:
            with translated():
                found = run_blocking(self._client, "numbered", keys=[key], args=[command, start, end])
            if len(found) == 3:
                return _Numbered(found[0].decode(), found[1].decode(), int(found[2]))
            if not found:
                return None
            start = f"({found[0].decode()}"

    def average_bytes(self, stream: StreamName) -> int:
        """About what an entry of the stream weighs; the server looks at its oldest thousand nodes and no further."""
        key = self._keys.archived(stream.shard, stream.name)
        with translated():
            used: Any = self._client.memory_usage(key, samples=1000)
            entries: Any = self._client.xlen(key)
        return int(used or 0) // max(1, int(entries))

    def is_past(self, positions: Mapping[StreamName, Position], *, streams: Collection[str] = EVENT_STREAMS) -> bool:
        """Whether the group was ever moved beyond these positions on these streams, in the present incarnation or in theirs."""
        with translated():
            ledgers: Any = {shard: self._client.hgetall(self._keys.ledger(shard)) for shard in self._keys.all_shards()}
        for shard, ledger in ledgers.items():
            present = ledger.get(b"incarnation", b"").decode()
            for (name, incarnation), numbers in numbers_of(ledger, streams=streams).items():
                at = positions.get(StreamName(shard, name), Position(present, START, 0))
                known = at.sequence if at.incarnation == incarnation else 0
                if incarnation in (present, at.incarnation) and numbers.archived > known:
                    return True
        return False

    def move(self, positions: Mapping[StreamName, Position]) -> None:
        """Moves the group to positions that are synced in the table; repeating it is harmless."""
        with translated():
            for stream, at in positions.items():
                run_blocking(
                    self._client,
                    "move",
                    keys=[self._keys.ledger(stream.shard), self._keys.archived(stream.shard, stream.name)],
                    args=[ARCHIVE_GROUP, stream.name, at.incarnation, at.entry_id, at.sequence],
                )
                reach("archive.between_moves")

    def make_good(self, *, groups: Iterable[str], owing: Iterable[Owing]) -> None:
        """Brings back groups that a wiped log has forgotten, and writes down what they are owed; repeating it is harmless.

        Before anything is trimmed: until its worker declares it again, nothing would be kept for a group.
        """
        with translated():
            for group in groups:
                declare_again(self._client, keys=self._keys, group=group)
            for one in owing:
                at = [self._keys.owed(one.shard, one.group), self._keys.ledger(one.shard)]
                run_blocking(self._client, "owe", keys=at, args=[one.group, one.range.field, one.value, one.range.events])

    def note_totals(self, totals: Mapping[str, int]) -> None:
        """Writes down, under names of the ledger, what the table has and will never have, for whoever balances the books."""
        with translated():
            flat = [part for pair in totals.items() for part in pair]
            run_blocking(self._client, "note", keys=[self._keys.ledger(0)], args=flat)

    def forget(self, lives: Sequence[tuple[StreamName, str]]) -> None:
        """Removes the numbers of past incarnations from the ledger."""
        with translated():
            for stream, incarnation in lives:
                run_blocking(self._client, "forget", keys=[self._keys.ledger(stream.shard)], args=[stream.name, incarnation])

    def accepted(self) -> dict[tuple[str, str], int]:
        """How many events were accepted, by tenant and source."""
        return self.counts().accepted

    def counts(self) -> Counts:
        with translated():
            return read_counts(self._client, keys=self._keys)

    def trim(self) -> int:
        """Removes events that every group, this one included, is done with; returns how many entries went."""
        with translated():
            # Below 0 while the housekeeper looks for what somebody else removed; it goes on with that.
            return sum(
                max(0, run_blocking(self._client, "trim", keys=[stream, self._keys.registry(shard), self._keys.ledger(shard)], args=[]))
                for shard in self._keys.all_shards()
                for stream in self._keys.event_streams(shard)
            )

    def close(self) -> None:
        self._client.close()


def _entry(entry_id: str, fields: Fields | list[bytes]) -> Entry:
    return Entry(entry_id, fields) if isinstance(fields, dict) else Entry(entry_id, flat=fields)


def _stream_end(stream: StreamName, *, incarnation: str, entry_id: str, flat: Sequence[bytes]) -> StreamEnd:
    given = {name.decode(): int(number) for name, number in zip(flat[::2], flat[1::2], strict=True)}
    return StreamEnd(stream, Position(incarnation, entry_id, given.get(incarnation, 0)), given)


def next_count(entries: Sequence[Entry]) -> int:
    """How many entries to ask for after these, so that the reply keeps to REPLY_BYTES if they weigh the same. Pure."""
    fitting = REPLY_BYTES * len(entries) // max(1, sum(entry.size_bytes for entry in entries))
    return max(1, min(fitting, 2 * len(entries), MOST_COUNT))


# Entries of one millisecond are told apart by a counter, which hardly ever needs more bits than these.
COUNTER_BITS = 20


def _place(entry_id: str) -> int:
    """An entry id as one number, to bisect by."""
    milliseconds, counter = id_order(entry_id)
    return milliseconds << COUNTER_BITS | min(counter, (1 << COUNTER_BITS) - 1)


def _id_at(place: int) -> str:
    return f"{place >> COUNTER_BITS}-{place & ((1 << COUNTER_BITS) - 1)}"
