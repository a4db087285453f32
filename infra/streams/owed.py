"""Owns what groups are owed: events that were taken off the log before a group had settled them, and giving them back. Blocking.

`spill.py` writes it down, in ranges and single entries. Each call gives some of it back and shortens it by that, in one script.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import redis

from infra.settings import LogSettings
from infra.streams.connection import open_blocking, translated
from infra.streams.keys import ARCHIVE_GROUP, EVENT_STREAMS, Keys
from infra.streams.positions import id_order
from infra.streams.replay import Limits
from infra.streams.scripts import Argument, run_blocking


@dataclass(frozen=True, slots=True)
class OwedRange:
    """Every entry above `after`, up to and including `to`, with these numbers; 0 where all of them are foreign entries without one."""

    stream: str
    incarnation: str
    after: str
    to: str
    first: int
    last: int

    @property
    def field(self) -> str:
        return f"range|{self.stream}|{self.incarnation}|{self.to}"

    @property
    def begins(self) -> tuple[int, int]:
        return id_order(self.after)

    @property
    def ends(self) -> tuple[int, int]:
        return id_order(self.to)

    @property
    def events(self) -> int:
        return self.last - self.first + 1 if self.first else 0


@dataclass(frozen=True, slots=True)
class OwedEntry:
    """An entry that was in work; without number and incarnation when it was gone from its stream by then."""

    stream: str
    incarnation: str
    entry_id: str
    number: int
    delivery_count: int

    @property
    def field(self) -> str:
        return f"id|{self.stream}|{self.incarnation}|{self.entry_id}"

    @property
    def value(self) -> str:
        return f"{self.number or ''}|{self.delivery_count}"

    @property
    def begins(self) -> tuple[int, int]:
        return id_order(self.entry_id)

    @property
    def ends(self) -> tuple[int, int]:
        return id_order(self.entry_id)

    @property
    def events(self) -> int:
        return 1


OwedItem = OwedRange | OwedEntry
ErasedNumbers = Mapping[tuple[str, str], Sequence[tuple[int, int]]]
"""Ranges of numbers that were erased, in their order and apart, by stream and incarnation."""


def parse_owed(fields: dict[bytes, bytes]) -> list[OwedItem]:
    """What `{n}:owed:<group>` says, in the order in which it is given back: stream by stream, by entry id. Pure."""
    found: list[OwedItem] = []
    for name, value in fields.items():
        kind, stream, incarnation, end = name.decode().split("|")
        if kind == "range":
            after, first, last = value.decode().split("|")
            found.append(OwedRange(stream, incarnation, after, end, int(first or 0), int(last or 0)))
        else:
            number, count = value.decode().split("|")
            found.append(OwedEntry(stream, incarnation, end, int(number or 0), int(count)))
    return sorted(found, key=lambda item: (EVENT_STREAMS.index(item.stream), item.begins, item.ends))


def parse_erased(fields: Mapping[bytes, bytes]) -> dict[tuple[str, str], list[tuple[int, int]]]:
    """What `{n}:erased` says. Pure."""
    found: dict[tuple[str, str], list[tuple[int, int]]] = {}
    for name, last in fields.items():
        stream, incarnation, first = name.decode().split("|")
        found.setdefault((stream, incarnation), []).append((int(first), int(last)))
    return {of: _apart(ranges) for of, ranges in found.items()}


def _apart(ranges: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """In their order; those that touch become one."""
    found: list[tuple[int, int]] = []
    for first, last in sorted(ranges):
        if found and first <= found[-1][1] + 1:
            found[-1] = (found[-1][0], max(found[-1][1], last))
        else:
            found.append((first, last))
    return found


def range_value(after: str, first: int, last: int) -> str:
    """A range, or what is left of it, as it is stored; behind its last number foreign entries may be left. Pure."""
    return f"{after}|{first or ''}|{last or ''}"


class Step(NamedTuple):
    """One step of giving back: an event, or numbers that have none any more."""

    field: str
    before: str
    after: str
    less: int
    """How many of the owed events that are."""
    missing: str = ""
    """Those that no table has and nobody has erased, `<what>=<how many>`."""
    origin: str = "0-0"
    fields: Sequence[Argument] = ()


@dataclass(frozen=True, slots=True)
class Given:
    """What a call did: `handed`, or why it stopped: `full`, `moved` (what is owed has changed), `gone` (the group)."""

    status: str
    appended: int
    steps: int


class Owed:
    """What the groups of one log are owed; raises StreamUnavailable."""

    def __init__(self, client: redis.Redis, *, keys: Keys) -> None:
        self._client = client
        self._keys = keys

    @classmethod
    def open(cls, log: LogSettings, *, home: Path) -> Owed:
        return cls(open_blocking(log, home=home), keys=Keys(log.prefix, log.shards))

    def creditors(self) -> dict[str, list[int]]:
        """Groups that are owed something, and in which shards; a few quick commands, so that it may be asked every second."""
        with translated():
            fields: Any = self._client.hkeys(self._keys.registry(0))
            names = [field.decode().removeprefix("group:") for field in fields if field.startswith(b"group:")]
            groups = [name for name in names if name != ARCHIVE_GROUP]
            found: dict[str, list[int]] = {}
            for shard in self._keys.all_shards() if groups else ():
                if self._client.exists(*(self._keys.owed(shard, group) for group in groups)):
                    for group in groups:
                        if self._client.exists(self._keys.owed(shard, group)):
                            found.setdefault(group, []).append(shard)
        return found

    def items(self, group: str, *, shard: int) -> list[OwedItem]:
        with translated():
            fields: Any = self._client.hgetall(self._keys.owed(shard, group))
        return parse_owed(fields)

    def erased(self, shard: int) -> ErasedNumbers:
        with translated():
            fields: Any = self._client.hgetall(self._keys.erased(shard))
        return parse_erased(fields)

    def waiting(self, group: str, *, shard: int) -> int:
        """Entries on the group's replay stream that it has not settled."""
        with translated():
            return int(self._client.xlen(self._keys.replay(shard, group)))

    def give_back(self, group: str, *, shard: int, steps: Iterable[Step], limits: Limits) -> Given:
        """Makes as many of the steps as there is room for, in their order."""
        args: list[Argument] = [group, limits.entries, limits.size_bytes]
        for step in steps:
            args += (step.field, step.before, step.after, step.less, step.missing, step.origin, len(step.fields), *step.fields)
        keys = self._keys
        at = [keys.replay(shard, group), keys.owed(shard, group), keys.retry(shard, group), keys.ledger(shard), keys.registry(shard)]
        with translated():
            status, appended, made = run_blocking(self._client, "refill", keys=at, args=args)
        return Given(status.decode(), appended, made)

    def close(self) -> None:
        self._client.close()
