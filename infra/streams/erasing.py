"""Owns erasing events from every key of the log that holds them, and counting what would go. Blocking; raises StreamUnavailable.

Whose an entry is stands in its fields `id`, `tenant_id` and `source`, which all versions have. What is erased was archived before, so that
its row is gone too, or goes next; numbers of erased entries are written down in `{n}:erased`, and nobody counts them as lost.
`seen` is left as it is: it has digests only, and keeps what was erased from being stored again when its sender repeats it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import redis

from infra.settings import LogSettings
from infra.streams.connection import open_blocking, translated
from infra.streams.keys import EVENT_STREAMS, Keys
from infra.streams.owed import parse_erased
from infra.streams.positions import id_order
from infra.streams.rebuild import Rebuilding
from infra.streams.scripts import Argument, run_blocking
from schemas.event import from_epoch_ms

# Scripts read whole entries, and the server does nothing else meanwhile.
AT_ONCE = 50
MOST_PASSES = 20
MOST_RECORDS = 1000
OF_GROUPS = ("retry", "replay", "parked")
T = TypeVar("T")


class Owner(NamedTuple):
    """Whose an entry is; empty texts where it does not say."""

    entry: str
    event_id: str
    tenant: str
    source: str


class Numbers(NamedTuple):
    """Numbers that follow each other, in one stream (`2:default`) and incarnation."""

    stream: str
    incarnation: str
    first: int
    last: int


@dataclass(frozen=True, slots=True)
class Chosen:
    """What is to be erased: everything of a tenant, of one of its sources, or these events."""

    tenant: str = ""
    source: str = ""
    event_ids: Collection[str] | None = None

    def fits(self, owner: Owner) -> bool:
        """Pure. An entry that does not say whose it is fits nothing."""
        if self.event_ids is not None and owner.event_id not in self.event_ids:
            return False
        is_named = bool(self.tenant or self.source) or self.event_ids is not None
        return is_named and self.tenant in ("", owner.tenant) and self.source in ("", owner.source)


@dataclass(frozen=True, slots=True)
class Place:
    """One key of one shard that holds events, and how they are erased there."""

    kind: str
    """`events`, `retry`, `replay`, `parked`, `delayed`, `dead` or `quarantine`: by which it is counted."""
    key: str
    script: str
    keys: Sequence[str] = field(default_factory=tuple)


@dataclass(frozen=True, slots=True)
class Erasure:
    """What the record of an erasure says: who, when, what was chosen, and how much went from where."""

    at: datetime
    by: str
    facts: dict[str, str]


def read_erasure(entry_id: str, fields: dict[bytes, bytes]) -> Erasure:
    """Pure."""
    said = {name.decode(): value.decode(errors="replace") for name, value in fields.items()}
    by = said.pop("by", "")
    return Erasure(from_epoch_ms(id_order(entry_id)[0]), by, {name: value for name, value in said.items() if name not in ("act", "name")})


class Erasing:
    """The log, as whoever erases sees it."""

    def __init__(self, client: redis.Redis, *, log: LogSettings) -> None:
        self._client: Any = client
        self._log = log
        self._keys = Keys(log.prefix, log.shards)

    @classmethod
    def open(cls, log: LogSettings, *, home: Path) -> Erasing:
        return cls(open_blocking(log, home=home), log=log)

    def count(self, chosen: Chosen) -> Counter[str]:
        """By kind of place, how many entries would go now."""
        found: Counter[str] = Counter()
        with translated():
            for place in self._places():
                found[place.kind] += sum(chosen.fits(owner) for owner in self._owners(place))
        return +found

    def erase(self, chosen: Chosen, *, tell: Callable[[int], None] = lambda _: None) -> Counter[str]:
        """Erases until a whole pass finds nothing: what a worker settles meanwhile may move from one place to another."""
        gone: Counter[str] = Counter()
        with translated():
            for _ in range(MOST_PASSES):
                found = 0
                for place in self._places():
                    for owners in _portions(owner for owner in self._owners(place) if chosen.fits(owner)):
                        erased = self._erase(place, entries=[owner.entry for owner in owners])
                        found += erased
                        gone[place.kind] += erased
                        tell(gone.total())
                if not found:
                    break
        return +gone

    def rebuild(self) -> dict[str, str]:
        """Takes the bytes of deleted entries out of the streams; returns those where that is not possible, and why."""
        with translated():
            found = {
                place.key: self._rebuilding(place.key, shard=shard).run()
                for shard in self._keys.all_shards()
                for place in self._places_of(shard)
                if place.kind != "delayed"
            }
        return {key: reason for key, reason in found.items() if reason}

    def _rebuilding(self, stream: str, *, shard: int) -> Rebuilding:
        return Rebuilding(self._client, stream, *self._keys.rebuilt(shard, stream), self._keys.ledger(shard), self._log)

    def event_ids(self) -> Iterator[str]:
        """Those of everything that the log holds; some twice."""
        with translated():
            for place in self._places():
                yield from (owner.event_id for owner in self._owners(place) if owner.event_id)

    def _erase(self, place: Place, *, entries: Sequence[str]) -> int:
        args: list[Argument] = list(entries)
        while (erased := int(run_blocking(self._client, place.script, keys=[place.key, *place.keys], args=args))) < 0:
            continue  # It looks through the stream, some hundred entries at a time.
        return erased

    def _places(self) -> Iterator[Place]:
        for shard in self._keys.all_shards():
            yield from self._places_of(shard)

    def _places_of(self, shard: int) -> Iterator[Place]:
        """Waiting retries before the retry streams they move to; so that few are met on the way."""
        keys = self._keys
        registry, ledger, erased = keys.registry(shard), keys.ledger(shard), keys.erased(shard)
        for name in EVENT_STREAMS:
            yield Place("events", keys.events(shard, name), "erase_events", (registry, ledger, erased))
        yield Place("delayed", keys.delayed(shard), "erase_delayed", (keys.delayed_bodies(shard), ledger))
        for kind in OF_GROUPS:
            for key in sorted(self._client.scan_iter(match=keys.of_groups(shard, kind), count=1000)):
                yield Place(kind, key.decode(), "erase_entries")
        yield Place("dead", keys.dead(shard), "erase_decided", (keys.dead_state(shard), ledger))
        yield Place("quarantine", keys.quarantine(shard), "erase_decided", (keys.quarantine_state(shard), ledger))

    def _owners(self, place: Place) -> Iterator[Owner]:
        if place.kind == "delayed":
            yield from self._delayed_owners(place)
            return
        start = "-"
        while found := run_blocking(self._client, "owners", keys=[place.key], args=[start, AT_ONCE]):
            yield from (_owner(one) for one in found)
            start = f"({found[-1][0].decode()}"

    def _delayed_owners(self, place: Place) -> Iterator[Owner]:
        members = (member for member, _ in self._client.zscan_iter(place.key, count=AT_ONCE))
        for some in _portions(members):
            for one in run_blocking(self._client, "owners_delayed", keys=[place.keys[0]], args=some):
                yield _owner(one)

    def record(self, *, by: str, name: str, facts: dict[str, str | int]) -> None:
        """Who erased what, and how much: never the data itself."""
        with translated():
            self._client.xadd(self._keys.audit(0), {"act": "erase", "by": by, "name": name, **facts})

    def numbers(self) -> dict[tuple[str, str], list[tuple[int, int]]]:
        """The numbers that were erased, as ranges, by stream (`2:default`) and incarnation."""
        with translated():
            by_shard = {shard: parse_erased(self._client.hgetall(self._keys.erased(shard))) for shard in self._keys.all_shards()}
        return {(f"{shard}:{stream}", of): ranges for shard, found in by_shard.items() for (stream, of), ranges in found.items()}

    def note_numbers(self, ranges: Iterable[Numbers]) -> None:
        """Writes down numbers of events that are off the log; harmless when it is done again."""
        with translated():
            for one in ranges:
                shard, _, stream = one.stream.partition(":")
                self._client.hset(self._keys.erased(int(shard)), f"{stream}|{one.incarnation}|{one.first}", one.last)

    def history(self) -> list[Erasure]:
        """Who erased what, the newest first; one that was carried out again after a crash once."""
        with translated():
            records: Any = self._client.xrevrange(self._keys.audit(0), count=MOST_RECORDS)
        found = {fields[b"name"]: read_erasure(entry_id.decode(), fields) for entry_id, fields in records if fields.get(b"act") == b"erase"}
        return sorted(found.values(), key=lambda erasure: erasure.at, reverse=True)

    def close(self) -> None:
        self._client.close()


def _owner(found: Sequence[bytes]) -> Owner:
    return Owner(*(text.decode(errors="surrogateescape") for text in found[:4]))


def _portions(things: Iterable[T]) -> Iterator[list[T]]:
    left = iter(things)
    while some := list(islice(left, AT_ONCE)):
        yield some
