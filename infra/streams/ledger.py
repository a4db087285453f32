"""Owns reading the ledger: what was accepted, by tenant and source, and how far the archive has come."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field

import redis

from infra.streams.keys import EVENT_STREAMS, Keys

BySource = dict[tuple[str, str], int]
COUNTED = ("accepted", "duplicates", "conflicts", "scheduled", "quarantined", "unkept")


@dataclass(slots=True)
class Counts:
    """Sums over all shards, by (tenant, source)."""

    accepted: BySource = field(default_factory=dict)
    duplicates: BySource = field(default_factory=dict)
    conflicts: BySource = field(default_factory=dict)
    scheduled: BySource = field(default_factory=dict)
    """Of the accepted ones, those that still wait for their time."""
    quarantined: BySource = field(default_factory=dict)
    """Refused requests that were kept aside."""
    unkept: BySource = field(default_factory=dict)
    """Refused requests that were not, since there were too many."""


@dataclass(frozen=True, slots=True)
class Numbers:
    """What the ledger knows of one incarnation of one stream."""

    given: int = 0
    """The last number given."""
    archived: int = 0
    """The number up to which Delta has every row that there will be."""


def numbers_of(ledger: dict[bytes, bytes], *, streams: Collection[str] = EVENT_STREAMS) -> dict[tuple[str, str], Numbers]:
    """By (stream name, incarnation), of these streams in one shard's ledger. Pure."""
    found: dict[tuple[str, str], Numbers] = {}
    for name, value in ledger.items():
        kind, _, rest = name.decode(errors="replace").partition(":")
        stream, _, incarnation = rest.partition(":")
        if kind in ("sequence", "archived") and stream in streams:
            known = found.get((stream, incarnation), Numbers())
            given = int(value) if kind == "sequence" else known.given
            archived = int(value.partition(b"|")[2]) if kind == "archived" else known.archived
            found[stream, incarnation] = Numbers(given, archived)
    return found


def read_last_used(client: redis.Redis, *, keys: Keys) -> dict[tuple[str, str, str], int]:
    """When keys were used last, in ms, by tenant, source and key id."""
    ledger: dict[bytes, bytes] = client.hgetall(keys.ledger(0))  # type: ignore[assignment]
    used = ((name.decode().split(":"), value) for name, value in ledger.items() if name.startswith(b"used:"))
    return {(tenant, source, key_id): int(value) for (_, tenant, source, key_id), value in used}


def read_counts(client: redis.Redis, *, keys: Keys) -> Counts:
    counts = Counts()
    for shard in keys.all_shards():
        add_shard(counts, ledger=client.hgetall(keys.ledger(shard)))  # type: ignore[arg-type]
    return counts


def add_shard(counts: Counts, *, ledger: dict[bytes, bytes]) -> None:
    """Adds one shard's ledger; pure but for `counts`."""
    for name, value in ledger.items():
        kind, _, rest = name.decode().partition(":")
        if kind in COUNTED:
            tenant, _, source = rest.partition(":")
            into: BySource = getattr(counts, kind)
            into[tenant, source] = into.get((tenant, source), 0) + int(value)
