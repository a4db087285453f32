"""Owns the judgement after a fault: what was answered 202 against what is in the table."""

from __future__ import annotations

import hashlib
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from infra.settings import LogSettings
from infra.streams.keys import Keys
from infra.streams.outcomes import alias_of
from tests.infra.streams.raw import open_raw
from tests.lake import archived


@dataclass(frozen=True, slots=True)
class Accepted:
    """One 202: what the sender sent, and the event id it was given."""

    event_id: str
    delivery_id: str
    body_sha256: str


@dataclass(frozen=True, slots=True)
class Row:
    """What the table says of one event; `actual_sha256` is computed from the stored body."""

    event_id: str
    delivery_id: str
    body_sha256: str
    actual_sha256: str
    stream: str
    incarnation: str
    sequence: int


def rows_of(home: Path) -> list[Row]:
    """What an installation has archived."""
    stored = archived(home, "id", "delivery_id", "body_sha256", "body", "stream", "incarnation", "sequence")
    return [Row(row.pop("id"), actual_sha256=hashlib.sha256(row.pop("body")).hexdigest(), **row) for row in stored]


def aliases_of(log: LogSettings, *, home: Path) -> dict[str, str]:
    """Ids that senders were given for what turned out a duplicate, and the first ids; on the log, or archived from there."""
    stored = archived(home, "kind", "event_id", "first_id", table="outcomes")
    found = {row["event_id"]: row["first_id"] for row in stored if row["kind"] == "alias"}
    client, keys = open_raw(log, home=home), Keys(log.prefix, log.shards)
    entries = [fields for shard in keys.all_shards() for _, fields in client.xrange(keys.outcomes(shard))]
    client.close()
    return found | {alias.event_id: alias.first_id for fields in entries if (alias := alias_of(fields)) is not None}


def first_ids(accepted: Iterable[Accepted], *, aliases: Mapping[str, str]) -> list[Accepted]:
    """What was accepted, by the ids under which it can be found. Pure."""
    return [replace(one, event_id=aliases.get(one.event_id, one.event_id)) for one in accepted]


def faults(accepted: Iterable[Accepted], *, rows: Iterable[Row]) -> list[str]:
    """One sentence for each broken promise; empty when nothing was lost, doubled, changed or invented. Pure."""
    accepted, rows = list(accepted), list(rows)
    return [*_lost(accepted, rows), *_doubled(rows), *_changed(accepted, rows), *_invented(accepted, rows), *_gaps(rows)]


def _lost(accepted: list[Accepted], rows: list[Row]) -> list[str]:
    archived = {row.event_id for row in rows}
    return [f"{one.event_id} was answered 202 and is not in the table" for one in accepted if one.event_id not in archived]


def _doubled(rows: list[Row]) -> list[str]:
    ids, deliveries = Counter(row.event_id for row in rows), Counter(row.delivery_id for row in rows)
    return [f"{name} has {count} rows" for counter in (ids, deliveries) for name, count in counter.items() if count > 1]


def _changed(accepted: list[Accepted], rows: list[Row]) -> list[str]:
    sent = {one.event_id: one.body_sha256 for one in accepted}
    return [
        f"the body of {row.event_id} is not what was sent"
        for row in rows
        if not sent.get(row.event_id, row.body_sha256) == row.body_sha256 == row.actual_sha256
    ]


def _invented(accepted: list[Accepted], rows: list[Row]) -> list[str]:
    sent = {one.delivery_id for one in accepted}
    return [f"{row.event_id} is in the table, and nobody sent it" for row in rows if row.delivery_id not in sent]


def _gaps(rows: list[Row]) -> list[str]:
    numbers: dict[tuple[str, str], list[int]] = defaultdict(list)
    for row in rows:
        numbers[row.stream, row.incarnation].append(row.sequence)
    return [
        f"stream {stream} in incarnation {incarnation} has not the numbers 1 to {len(found)}"
        for (stream, incarnation), found in numbers.items()
        if sorted(found) != list(range(1, len(found) + 1))
    ]
