"""Owns the operator's one look at the whole log: counts, groups, dead letters, and whether the books balance."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path

from infra.settings import LogSettings
from infra.streams.books import Owner, SourceBooks, read_books
from infra.streams.caps import Weight, weigh_all
from infra.streams.connection import open_pipeline
from infra.streams.entries import as_fields
from infra.streams.keys import ARCHIVE_GROUP, Keys
from infra.streams.lag import StreamLag, oldest_undelivered_ms, read_lag
from infra.streams.ledger import Counts, add_shard, numbers_of
from infra.streams.parked import count_parked
from infra.streams.pipelining import Pipeline

NOTED = (b"foreign:events", b"repeated:events", b"before:accepted", b"erased:events", b"expired:events")
"""What the archive notes in the ledger of shard 0."""


@dataclass(frozen=True, slots=True)
class GroupState:
    """One group over all its streams; None where the server cannot tell."""

    group: str
    kind: str
    undelivered: int | None
    pending: int
    oldest_ms: int | None
    """How long the oldest entry that nobody was handed has waited; None when there is none."""
    dead_letters: int = 0
    """Open ones, which wait for a decision."""
    dead_letters_ever: int = 0
    lost: int = 0
    """Entries that somebody trimmed beneath the group, in work or not yet delivered."""
    owed: int = 0
    """Events that were taken off the log before the group had settled them, to make room; they are in the archive."""
    parked: int = 0
    """Entries of a version that no worker which runs can read."""
    idle_ms: int | None = None
    """How long ago a worker of the group last said that it lives; None when none ever did."""

    @property
    def is_behind(self) -> bool:
        return self.undelivered != 0 or self.pending > 0


@dataclass(slots=True)
class Overview:
    """What the log knows at one moment; while events arrive, the parts are milliseconds apart."""

    counts: Counts
    groups: list[GroupState] = field(default_factory=list)
    waiting_retries: int = 0
    scheduled: int = 0
    """Accepted events that wait for their time."""
    erased: int = 0
    """Accepted events whose rows were erased."""
    erased_scheduled: int = 0
    """Accepted events that were erased while they waited for their time."""
    expired: int = 0
    """Accepted events whose rows were past their retention."""
    lost_scheduled: int = 0
    """Those that were gone when their time came, or are not there now."""
    open_dead_letters: int = 0
    quarantined: int = 0
    """Refused requests that were kept aside, and wait for a decision."""
    unkept: int = 0
    """Refused requests that could not be kept aside."""
    archived_rows: int | None = None
    """Rows of `events` after the archive's newest commit; None before the first."""
    foreign_rows: int = 0
    """Those among them that nobody accepted: entries to which the log gave no number."""
    repeated: int = 0
    """Events that were accepted twice, and found by the archive to have a row already."""
    accepted_before: int = 0
    """Events that were accepted by ledgers that are gone, as far as the archive has seen them."""
    above_archived: int = 0
    """Numbers that the log gave and that the archive has not come to."""
    books: dict[Owner, SourceBooks] | None = None
    """By tenant and source, without spools; None while the archive is so far behind that nobody counts."""
    incarnations: dict[int, str] = field(default_factory=dict)
    weight: Weight | None = None
    """Of the log's fullest server."""

    @property
    def accepted(self) -> int:
        return sum(self.counts.accepted.values()) + self.accepted_before - self.repeated

    @property
    def archived_events(self) -> int | None:
        """Accepted events among the rows that there are."""
        return None if self.archived_rows is None else self.archived_rows - self.foreign_rows - self.erased - self.expired

    @property
    def lost(self) -> int:
        """Accepted events that the log no longer had when the archive came for them, or when their time came."""
        return sum(state.lost for state in self.groups if state.group == ARCHIVE_GROUP) + self.lost_scheduled

    @property
    def out_of_balance(self) -> int:
        """accepted - archived - above the archived mark - scheduled - erased - expired - lost: 0 at every quiet moment."""
        gone = self.erased + self.erased_scheduled + self.expired + self.lost
        return self.accepted - (self.archived_events or 0) - self.above_archived - self.scheduled - gone


def read_overview(log: LogSettings, *, home: Path) -> Overview:
    """Looks once; raises StreamUnavailable."""

    async def look() -> Overview:
        pipeline = open_pipeline(log, home=home)
        try:
            keys = Keys(log.prefix, log.shards)
            found = await overview(pipeline, keys=keys)
            found.weight = await weigh_all(pipeline, keys=keys, log=log)
            return found
        finally:
            await pipeline.close()

    return asyncio.run(look())


async def overview(pipeline: Pipeline, *, keys: Keys) -> Overview:
    found = Overview(Counts())
    ledgers = {shard: as_fields(await pipeline.call("HGETALL", keys.ledger(shard))) for shard in keys.all_shards()}
    for shard, ledger in ledgers.items():
        add_shard(found.counts, ledger=ledger)
        found.open_dead_letters += _difference(ledger, b"dead:", b"closed:")
        found.quarantined += _difference(ledger, b"quarantined:", b"decided:")
        found.unkept += _difference(ledger, b"unkept:")
        found.above_archived += sum(max(0, numbers.given - numbers.archived) for numbers in numbers_of(ledger).values())
        found.incarnations[shard] = ledger.get(b"incarnation", b"").decode()
        _add_waiting(found, ledger=ledger, waiting=await pipeline.call("ZCARD", keys.delayed(shard)))
    found.books = await read_books(pipeline, keys=keys, ledgers=ledgers)
    rows = ledgers[0].get(b"rows:events")
    found.archived_rows = int(rows) if rows is not None else None
    registry = as_fields(await pipeline.call("HGETALL", keys.registry(0)))
    seconds, microseconds = await pipeline.call("TIME")
    now_ms = int(seconds) * 1000 + int(microseconds) // 1000
    noted = (int(ledgers[0].get(name, b"0")) for name in NOTED)
    found.foreign_rows, found.repeated, found.accepted_before, found.erased, found.expired = noted
    for group, kind in sorted(_declared(registry).items()):
        dead, closed, lost, owed = (_sum(ledgers.values(), field=f"{what}:{group}") for what in ("dead", "closed", "lost", "owed"))
        lags = await read_lag(pipeline, keys=keys, group=group)
        ages = [await oldest_undelivered_ms(pipeline, keys=keys, lag=lag) for lag in lags if lag.undelivered != 0]
        idle_ms = _ago(registry.get(f"alive:{group}".encode()), now_ms=now_ms)
        state = _group_state(group, kind=kind, lags=lags, ages=ages)
        parked = await count_parked(pipeline, keys=keys, group=group)
        state = replace(state, dead_letters=dead - closed, dead_letters_ever=dead, lost=lost, owed=owed, parked=parked, idle_ms=idle_ms)
        found.groups.append(state)
    return found


def _sum(ledgers: Iterable[dict[bytes, bytes]], *, field: str) -> int:
    return sum(int(ledger.get(field.encode(), b"0")) for ledger in ledgers)


def _difference(ledger: dict[bytes, bytes], counted: bytes, *closed: bytes) -> int:
    """Over all groups or sources, also those that were removed: somebody has to decide about what they left."""
    sums = {kind: sum(int(value) for name, value in ledger.items() if name.startswith(kind)) for kind in (counted, *closed)}
    return sums.pop(counted) - sum(sums.values())


def _ago(at_ms: bytes | None, *, now_ms: int) -> int | None:
    return None if at_ms is None else max(0, now_ms - int(at_ms))


def _add_waiting(found: Overview, *, ledger: dict[bytes, bytes], waiting: int) -> None:
    """One shard's delayed set: the ledger knows how many of those are scheduled events, and when some must be missing."""
    scheduled = sum(int(value) for name, value in ledger.items() if name.startswith(b"scheduled:"))
    found.scheduled += min(scheduled, waiting)
    found.waiting_retries += max(0, waiting - scheduled)
    found.erased_scheduled += sum(int(value) for name, value in ledger.items() if name.startswith(b"erased_scheduled:"))
    found.lost_scheduled += max(0, scheduled - waiting) + int(ledger.get(b"lost_scheduled", b"0"))


def _declared(registry: dict[bytes, bytes]) -> dict[str, str]:
    """Groups and their kinds."""
    groups = {name.decode().removeprefix("group:"): kind.decode() for name, kind in registry.items() if name.startswith(b"group:")}
    return {group: kind.partition(":")[0] for group, kind in groups.items()}


def _group_state(group: str, *, kind: str, lags: Iterable[StreamLag], ages: Iterable[int | None]) -> GroupState:
    lags, known_ages = list(lags), [age for age in ages if age is not None]
    undelivered = [lag.undelivered for lag in lags]
    return GroupState(
        group=group,
        kind=kind,
        undelivered=None if None in undelivered else sum(value or 0 for value in undelivered),
        pending=sum(lag.pending for lag in lags),
        oldest_ms=max(known_ages, default=None),
    )
