"""Owns streams of things that a person decides about, as operators read them: newest first, each with what became of it. Blocking.

Their entries carry whole bodies, so they are read a few at a time, however many there are. What was decided stands in a state hash
and in a record on the same stream; the thing itself stays.
"""

from __future__ import annotations

import heapq
import itertools
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, Generic, Self, TypeVar

import redis

from infra.failpoints import reach
from infra.settings import LogSettings
from infra.streams.connection import open_blocking, translated
from infra.streams.entries import Fields
from infra.streams.keys import Keys
from infra.streams.letter_filter import LetterFilter
from infra.streams.positions import id_order
from infra.streams.scripts import Argument, run_blocking
from schemas.event import from_epoch_ms

CHUNK = 50
OPEN = "open"

Ends = Mapping[int, str]
"""Per shard the newest entry id of the stream at some moment."""
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Stored:
    """An entry of such a stream, not yet decoded; `decided` is its state and the entry id of the state's record."""

    shard: int
    entry_id: str
    fields: Fields
    decided: str

    @property
    def state(self) -> str:
        return self.decided.partition(":")[0] or OPEN


@dataclass(frozen=True, slots=True)
class Decision:
    """Who decided what, as its record says."""

    at: datetime
    by: str
    because: str


class DecidedEntries(ABC, Generic[T]):
    """The entries of all shards; raises StreamUnavailable."""

    record: bytes
    """What the things themselves are called in their field `record`; state records are called `state`."""

    def __init__(self, client: redis.Redis, *, keys: Keys) -> None:
        self._client = client
        self._keys = keys

    @classmethod
    def open(cls, log: LogSettings, *, home: Path) -> Self:
        return cls(open_blocking(log, home=home), keys=Keys(log.prefix, log.shards))

    @abstractmethod
    def _stream(self, shard: int) -> str: ...

    @abstractmethod
    def _state(self, shard: int) -> str: ...

    @abstractmethod
    def _read(self, stored: Stored) -> T: ...

    @abstractmethod
    def _with(self, thing: T, decision: Decision) -> T: ...

    def entries(self, chosen: LetterFilter, *, limit: int | None = None) -> Iterator[T]:
        """Newest first over all shards, read as they are asked for."""
        shards = (self._newest_first(shard, chosen=chosen, start=chosen.above_id) for shard in self._keys.all_shards())
        merged = heapq.merge(*shards, key=lambda stored: id_order(stored.entry_id), reverse=True)
        return (self._read(stored) for stored in itertools.islice(merged, limit))

    def ids(self, chosen: LetterFilter, *, ends: Ends) -> Iterator[str]:
        """The ids of all things up to the ends, shard by shard: what comes meanwhile, state records above all, is not among them."""
        for shard, end in ends.items():
            start = end if chosen.until is None else _earlier(end, chosen.above_id)
            for stored in self._newest_first(shard, chosen=chosen, start=start):
                yield f"{shard}-{stored.entry_id}"

    def ends(self) -> Ends:
        """Where the stream of each shard ends now; shards without any entry are left out."""
        with translated():
            newest: Any = {shard: self._client.xrevrange(self._stream(shard), count=1) for shard in self._keys.all_shards()}
        return {shard: found[0][0].decode() for shard, found in newest.items() if found}

    def find(self, name: str) -> list[T]:
        """The things called so, by their own id or by the event's, with what was decided about them."""
        return [self._with_decision(stored) for stored in self._called(name)]

    def _newest_first(self, shard: int, *, chosen: LetterFilter, start: str) -> Iterator[Stored]:
        while True:
            stored = self._chunk(shard, start=start, end=chosen.lowest_id)
            yield from (one for one in stored if one.fields.get(b"record") == self.record and chosen.fits(one.fields, state=one.state))
            if len(stored) < CHUNK:
                return
            start = f"({stored[-1].entry_id}"

    def _chunk(self, shard: int, *, start: str, end: str) -> list[Stored]:
        with translated():
            found: Any = self._client.xrevrange(self._stream(shard), max=start, min=end, count=CHUNK)
            ids = [entry_id for entry_id, _ in found]
            states: Any = self._client.hmget(self._state(shard), ids) if ids else []
        return [
            Stored(shard, entry_id.decode(), fields, (decided or b"").decode())
            for (entry_id, fields), decided in zip(found, states, strict=True)
        ]

    def _called(self, name: str) -> Iterator[Stored]:
        if place := self._parse(name):
            shard, entry_id = place
            exactly = self._chunk(shard, start=entry_id, end=entry_id)
            yield from (one for one in exactly if one.fields.get(b"record") == self.record)
            return
        for shard in self._keys.all_shards():
            everything = self._newest_first(shard, chosen=LetterFilter(), start="+")
            yield from (stored for stored in everything if stored.fields.get(b"id") == name.encode())

    def _parse(self, name: str) -> tuple[int, str] | None:
        shard, _, entry_id = name.partition("-")
        milliseconds, _, counter = entry_id.partition("-")
        is_id = all(part.isascii() and part.isdigit() and len(part) < 20 for part in (shard, milliseconds, counter))
        return (int(shard), entry_id) if is_id and int(shard) in self._keys.all_shards() else None

    def _with_decision(self, stored: Stored) -> T:
        thing = self._read(stored)
        _, _, record_id = stored.decided.partition(":")
        if not record_id:
            return thing
        with translated():
            found: Any = self._client.xrange(self._stream(stored.shard), min=record_id, max=record_id)
        said = found[0][1] if found else {}
        by, because = (said.get(name, b"").decode(errors="replace") for name in (b"by", b"because"))
        return self._with(thing, Decision(from_epoch_ms(id_order(record_id)[0]), by, because))

    def _decide(self, script: str, *, shard: int, args: list[Argument]) -> str:
        """Runs the script that checks the state, acts, and writes it down; it answers what became of it."""
        at = [self._stream(shard), self._state(shard), self._keys.ledger(shard)]
        reach(f"{script}.before")
        with translated():
            reply: bytes = run_blocking(self._client, script, keys=at, args=args)
        reach(f"{script}.after")
        return reply.decode()

    def close(self) -> None:
        self._client.close()


def place_of(name: str) -> tuple[int, str]:
    """Shard and entry id of a thing's own id."""
    shard, _, entry_id = name.partition("-")
    return int(shard), entry_id


def _earlier(end: str, below: str) -> str:
    return end if id_order(end) < id_order(below.removeprefix("(")) else below
