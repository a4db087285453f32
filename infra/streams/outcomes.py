"""Owns the records in `{n}:outcomes`: what was settled, one packed entry per settled batch, and aliases. Pure.

Columns, not rows: the names stand once, and a batch of hundreds costs little more than its event ids. `settle.lua` adds which of
the deliveries were lost after all, and which became dead letters because their writes were refused, since only it knows.
An alias is an entry of its own, by `alias.lua`; the field `record` tells them apart.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import orjson

from infra.streams.entries import Fields
from schemas.errors import MalformedEntry
from schemas.outcome import Alias, Outcome, Ran, Step

COLUMNS = ("event_ids", "processors", "attempts", "started_at_ms", "durations_ms", "steps")


def pack(settled: Sequence[tuple[Ran, Step]]) -> bytes:
    """The packed record of deliveries, in the order in which they are handed to the script."""
    rows = [(*ran, step) for ran, step in settled]
    return orjson.dumps(dict(zip(COLUMNS, zip(*rows, strict=True), strict=True)))


def alias_of(fields: Fields) -> Alias | None:
    """What an entry says about an id that a sender was given; None when it is a record of what was settled. Raises MalformedEntry."""
    if fields.get(b"record") != b"alias":
        return None
    try:
        return Alias(*(fields[name].decode() for name in (b"event_id", b"first_id", b"tenant_id", b"source")))
    except (KeyError, ValueError) as error:
        raise MalformedEntry(f"the entry is no alias: {type(error).__name__}: {error}", fields=fields) from error


def unpack(fields: Fields) -> list[Outcome]:
    """What one entry of the stream says was settled; raises MalformedEntry, also for an alias."""
    try:
        columns: dict[str, list[Any]] = orjson.loads(fields[b"batch"])
        lost, refused = _places(fields[b"lost"]), _places(fields.get(b"refused", b""))
        group, consumer = fields[b"group"].decode(), fields[b"consumer"].decode()
        return list(_outcomes(columns, lost=lost, refused=refused, group=group, consumer=consumer))
    except (KeyError, ValueError, TypeError) as error:
        raise MalformedEntry(f"the entry is no record of outcomes: {type(error).__name__}: {error}", fields=fields) from error


def _places(listed: bytes) -> set[int]:
    return {int(place) for place in listed.split(b",") if place}


def _outcomes(columns: dict[str, list[Any]], *, lost: set[int], refused: set[int], group: str, consumer: str) -> Iterator[Outcome]:
    for place, (*ran, step) in enumerate(zip(*(columns[name] for name in COLUMNS), strict=True), start=1):
        if place not in lost and ran[0]:
            yield Outcome(group, consumer, "dead_letter" if place in refused else step, Ran(*ran))
