"""Owns dead letters on the log, for operators: listing, showing, requeueing and discarding them. Blocking.

Letters carry whole bodies, so they are read a few at a time, however many there are.
"""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import redis

from infra.failpoints import reach
from infra.settings import LogSettings
from infra.streams.connection import open_blocking, translated
from infra.streams.entries import Fields, decode
from infra.streams.keys import Keys
from infra.streams.letter_filter import LetterFilter
from infra.streams.positions import id_order
from infra.streams.scripts import Argument, run_blocking
from infra.streams.settle import FIRST_FIELDS
from schemas.dead_letter import DeadLetter
from schemas.errors import MalformedEntry
from schemas.event import from_epoch_ms

CHUNK = 50
OPEN = "open"

WHY = ("processor", "reason", "error", "traceback", *FIRST_FIELDS)
OWN_FIELDS = ("record", "group", "from", "from_entry", "incarnation", "sequence", *WHY, "attempts", "dead_at")
"""What a letter says of itself; everything else was the entry's. A field of the entry with such a name is kept as `kept:<name>`."""

Ends = Mapping[int, str]
"""Per shard the newest entry id of the stream `dead` at some moment."""


@dataclass(frozen=True, slots=True)
class _Stored:
    """An entry of the stream `dead`, not yet decoded; `decided` is its state and the entry id of the state's record."""

    shard: int
    entry_id: str
    fields: Fields
    decided: str

    @property
    def state(self) -> str:
        return self.decided.partition(":")[0] or OPEN


class DeadLetters:
    """The dead letters of all shards; raises StreamUnavailable."""

    def __init__(self, client: redis.Redis, *, keys: Keys) -> None:
        self._client = client
        self._keys = keys

    @classmethod
    def open(cls, log: LogSettings, *, home: Path) -> DeadLetters:
        return cls(open_blocking(log, home=home), keys=Keys(log.prefix, log.shards))

    def letters(
        self, *, group: str = "", state: str = "", limit: int | None = None, chosen: LetterFilter | None = None
    ) -> Iterator[DeadLetter]:
        """Newest first over all shards, read as they are asked for; empty filters let everything pass."""
        chosen = chosen or LetterFilter(group=group, state=state)
        shards = (self._newest_first(shard, chosen=chosen, start=chosen.above_id) for shard in self._keys.all_shards())
        merged = heapq.merge(*shards, key=lambda stored: id_order(stored.entry_id), reverse=True)
        return (_read(stored) for stored in itertools.islice(merged, limit))

    def ids(self, chosen: LetterFilter, *, ends: Ends) -> Iterator[str]:
        """The ids of all letters up to the ends, shard by shard: what comes meanwhile, state records above all, is not among them."""
        for shard, end in ends.items():
            start = end if chosen.until is None else _earlier(end, chosen.above_id)
            for stored in self._newest_first(shard, chosen=chosen, start=start):
                yield f"{shard}-{stored.entry_id}"

    def ends(self) -> Ends:
        """Where the dead letters of each shard end now; shards without any are left out."""
        with translated():
            newest: Any = {shard: self._client.xrevrange(self._keys.dead(shard), count=1) for shard in self._keys.all_shards()}
        return {shard: found[0][0].decode() for shard, found in newest.items() if found}

    def _newest_first(self, shard: int, *, chosen: LetterFilter, start: str) -> Iterator[_Stored]:
        while True:
            stored = self._chunk(shard, start=start, end=chosen.lowest_id)
            yield from (one for one in stored if one.fields.get(b"record") == b"letter" and chosen.fits(one.fields, state=one.state))
            if len(stored) < CHUNK:
                return
            start = f"({stored[-1].entry_id}"

    def _chunk(self, shard: int, *, start: str, end: str) -> list[_Stored]:
        with translated():
            found: Any = self._client.xrevrange(self._keys.dead(shard), max=start, min=end, count=CHUNK)
            ids = [entry_id for entry_id, _ in found]
            states: Any = self._client.hmget(self._keys.dead_state(shard), ids) if ids else []
        return [
            _Stored(shard, entry_id.decode(), fields, (decided or b"").decode())
            for (entry_id, fields), decided in zip(found, states, strict=True)
        ]

    def find(self, name: str) -> list[DeadLetter]:
        """The dead letters called so, by the dead letter's own id or by the event's, with what was decided about them."""
        return [self._with_decision(stored) for stored in self._called(name)]

    def groups(self) -> list[str]:
        """The groups that are declared on this log, and those that were and have left dead letters."""
        with translated():
            declared: Any = self._client.hkeys(self._keys.registry(0))
            counted: Any = [field for shard in self._keys.all_shards() for field in self._client.hkeys(self._keys.ledger(shard))]
        with_letters = {name.removeprefix(b"dead:") for name in counted if name.startswith(b"dead:")}
        names = {name.removeprefix(b"group:") for name in declared if name.startswith(b"group:")} | with_letters
        return sorted(name.decode() for name in names)

    def _called(self, name: str) -> Iterator[_Stored]:
        if place := self._parse(name):
            shard, entry_id = place
            exactly = self._chunk(shard, start=entry_id, end=entry_id)
            yield from (one for one in exactly if one.fields.get(b"record") == b"letter")
            return
        for shard in self._keys.all_shards():
            everything = self._newest_first(shard, chosen=LetterFilter(), start="+")
            yield from (stored for stored in everything if stored.fields.get(b"id") == name.encode())

    def _parse(self, letter_id: str) -> tuple[int, str] | None:
        shard, _, entry_id = letter_id.partition("-")
        milliseconds, _, counter = entry_id.partition("-")
        is_id = all(part.isascii() and part.isdigit() and len(part) < 20 for part in (shard, milliseconds, counter))
        return (int(shard), entry_id) if is_id and int(shard) in self._keys.all_shards() else None

    def _with_decision(self, stored: _Stored) -> DeadLetter:
        letter = _read(stored)
        _, _, record_id = stored.decided.partition(":")
        if not record_id:
            return letter
        with translated():
            found: Any = self._client.xrange(self._keys.dead(stored.shard), min=record_id, max=record_id)
        said = found[0][1] if found else {}
        by, because = (said.get(name, b"").decode(errors="replace") for name in (b"by", b"because"))
        return letter.model_copy(update={"decided_at": from_epoch_ms(id_order(record_id)[0]), "decided_by": by, "because": because})

    def requeue(self, letter: DeadLetter | str, *, by: str = "") -> str:
        """`requeued`, `already`, `discarded` (before, so it was not requeued) or `gone`; doing it twice is harmless."""
        shard, entry_id = _place_of(letter)
        return self._decide("requeue", shard=shard, args=[entry_id, by, self._keys.retry(shard, ""), *OWN_FIELDS])

    def discard(self, letter: DeadLetter | str, *, by: str, because: str) -> str:
        """`discarded`, or why it was refused: `already`, `requeued` before, or `gone`."""
        shard, entry_id = _place_of(letter)
        return self._decide("discard", shard=shard, args=[entry_id, by, because])

    def _decide(self, script: str, *, shard: int, args: list[Argument]) -> str:
        at = [self._keys.dead(shard), self._keys.dead_state(shard), self._keys.ledger(shard)]
        reach(f"{script}.before")
        with translated():
            reply: bytes = run_blocking(self._client, script, keys=at, args=args)
        reach(f"{script}.after")
        return reply.decode()

    def close(self) -> None:
        self._client.close()


def _place_of(letter: DeadLetter | str) -> tuple[int, str]:
    shard, _, entry_id = (letter if isinstance(letter, str) else letter.id).partition("-")
    return int(shard), entry_id


def _earlier(end: str, below: str) -> str:
    return end if id_order(end) < id_order(below.removeprefix("(")) else below


def _read(stored: _Stored) -> DeadLetter:
    return read_letter(stored.fields, shard=stored.shard, entry_id=stored.entry_id, state=stored.state)


def read_letter(fields: Fields, *, shard: int, entry_id: str, state: str) -> DeadLetter:
    """Pure: the dead letter that an entry of the stream `dead` describes."""
    own = {name: fields.get(name.encode(), b"").decode(errors="replace") for name in ("group", "from_entry", *WHY)}
    entry = {name.removeprefix(b"kept:"): value for name, value in fields.items() if name.decode("latin-1") not in OWN_FIELDS}
    try:
        event, raw = decode(entry), {}
    except MalformedEntry:
        event, raw = None, {name.decode("latin-1"): value.decode("latin-1") for name, value in entry.items()}
    return DeadLetter(
        id=f"{shard}-{entry_id}",
        from_stream=fields.get(b"from", b"").decode(errors="replace"),
        attempts=int(fields.get(b"attempts", b"0")),
        dead_at=from_epoch_ms(int(fields.get(b"dead_at", b"0"))),
        state=state,
        event_id=entry.get(b"id", b"").decode(errors="replace"),
        event=event,
        entry=raw,
        **own,
    )
