"""Owns counting the events that a replay would hand over, in one pass over the table: whose they are, on which days, in which shards."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import date
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from analytics.rebuilding import shard_of

SLICE_EVENTS = 200_000
"""Days are sorted together up to about so many events."""
WHOSE = ("tenant_id", "source", "event_type")


@dataclass(frozen=True, slots=True)
class Counted:
    """What was found, up to and including the newest batch that had any of it."""

    events: int = 0
    unreadable: int = 0
    """Entries that are no events, and cannot be handed to anyone."""
    batch: int = 0
    whose: list[tuple[str, str, str, int]] = field(default_factory=list)
    """Tenant, source, type and how many; most first."""
    days: list[tuple[date, int]] = field(default_factory=list)
    """In their order."""
    shards: dict[int, int] = field(default_factory=dict)


def count(rows: DataFrame, *, shards: int) -> Counted:
    """Reads no bodies."""
    marked = rows.select(
        "received_date", *WHOSE, shard_of(shards).alias("shard"), "batch", F.col("decode_error").isNull().alias("is_event")
    )
    sets: list[list[Any]] = [[], [F.col("received_date")], [F.col("shard")], [F.col(name) for name in WHOSE]]
    columns = [F.col(name) for name in ("received_date", "shard", *WHOSE)]
    counts = (F.count_if("is_event").alias("events"), F.count_if(~F.col("is_event")).alias("unreadable"), F.max("batch").alias("batch"))
    of_set = F.grouping_id(*columns).alias("of_set")
    found = marked.groupingSets(sets, *columns).agg(of_set, *counts).collect()
    # A bit for each column that is not in the set, the first column's the highest.
    total = next((row for row in found if row.of_set == 0b11111), None)
    return Counted(
        events=total.events if total else 0,
        unreadable=total.unreadable if total else 0,
        batch=total.batch or 0 if total else 0,
        whose=sorted(
            ((*(row[name] for name in WHOSE), row.events) for row in found if row.of_set == 0b11000 and row.events), key=_most_first
        ),
        days=sorted((row.received_date, row.events) for row in found if row.of_set == 0b01111 and row.events),
        shards={row.shard: row.events for row in found if row.of_set == 0b10111 and row.events},
    )


def _most_first(row: tuple[Any, ...]) -> tuple[Any, ...]:
    return (-row[-1], *row[:-1])


def slices(days: Sequence[tuple[date, int]], *, most: int = SLICE_EVENTS) -> list[tuple[date, date]]:
    """First and last day of what is sorted together: so many events, or one day. Pure."""
    found: list[tuple[date, date]] = []
    events = 0
    for day, count_of_day in days:
        if found and events + count_of_day <= most:
            found[-1], events = (found[-1][0], day), events + count_of_day
        else:
            found.append((day, day))
            events = count_of_day
    return found
