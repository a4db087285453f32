"""Owns the questions of an audit: is every row what was received, is each there once, and is none missing?

`wrong` counts what should never be; `remarks` what a person may want to know and nothing can be done about.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from analytics.transforms import DELIVERY

MOST_NAMED = 20
Ranges = list[tuple[int, int]]
Life = tuple[str, str]
"""Stream and incarnation."""


@dataclass(slots=True)
class Findings:
    """What was found; everything in `wrong` that is not 0 needs a person."""

    rows: int = 0
    wrong: dict[str, int] = field(default_factory=dict)
    remarks: dict[str, int] = field(default_factory=dict)
    named: dict[str, list[str]] = field(default_factory=dict)
    """Some of what is wrong: ids, files, or numbers of a stream."""

    @property
    def is_wrong(self) -> bool:
        return any(self.wrong.values())

    def add(self, name: str, count: int, named: Iterable[str] = ()) -> None:
        self.wrong[name] = count
        if count:
            self.named[name] = list(named)[:MOST_NAMED]


def in_window(events: DataFrame, *, since: datetime | None, until: datetime | None, tenant: str, source: str) -> DataFrame:
    """The rows that are asked about."""
    rows = events
    if since is not None:
        rows = rows.where((F.col("received_date") >= F.lit(since.date())) & (F.col("received_at") >= F.lit(since)))
    if until is not None:
        rows = rows.where((F.col("received_date") <= F.lit(until.date())) & (F.col("received_at") < F.lit(until)))
    for name, value in (("tenant_id", tenant), ("source", source)):
        rows = rows.where(F.col(name) == value) if value else rows
    return rows


def check_bodies(rows: DataFrame, *, findings: Findings) -> None:
    """Reads every body, and compares its digest with that which the receiver computed."""
    differs = F.col("body").isNotNull() & ~F.sha2("body", 256).eqNullSafe(F.col("body_sha256"))
    counted = rows.agg(F.count("*"), F.count_if(differs), F.count_if(F.col("decode_error").isNotNull())).collect()[0]
    findings.rows = counted[0]
    ids = [row.id for row in rows.where(differs).select("id").limit(MOST_NAMED).collect()] if counted[1] else []
    findings.add("bodies_that_differ", counted[1], ids)
    findings.remarks["rows_that_are_no_event"] = counted[2]


def check_duplicates(rows: DataFrame, *, window_hours: int, findings: Findings) -> None:
    """One row for each id, and for each delivery with one body within the time for which deliveries are remembered."""
    ids = rows.where("id IS NOT NULL").groupBy("id").count().where("count > 1")
    findings.add("ids_that_occur_twice", ids.count(), (row.id for row in ids.limit(MOST_NAMED).collect()))
    number = F.coalesce(F.col("part.number"), F.lit(0)).alias("number")
    deliveries = rows.where("delivery_id != ''").groupBy(*DELIVERY, number)
    spread = F.unix_millis(F.max("received_at")) - F.unix_millis(F.min("received_at"))
    twice = deliveries.agg(F.count("*").alias("count"), F.min("id").alias("id"), spread.alias("spread"))
    twice = twice.where((F.col("count") > 1) & (F.col("spread") <= window_hours * 3_600_000))
    findings.add("deliveries_that_occur_twice", twice.count(), (row.id for row in twice.limit(MOST_NAMED).collect()))


def check_numbers(events: DataFrame, rows: DataFrame, *, erased: Mapping[Life, Ranges], excused: int, findings: Findings) -> None:
    """Numbers are gapless, so one without a row is a loss, unless it was erased; `excused` are known to have no row, but not which."""
    numbered = rows.where("sequence IS NOT NULL AND incarnation IS NOT NULL").groupBy("stream", "incarnation")
    lives = numbered.agg(F.min("sequence").alias("first"), F.max("sequence").alias("last")).collect()
    missing: dict[Life, Ranges] = {}
    for life in lives:
        of = (life.stream, life.incarnation)
        there = events.where(
            (F.col("stream") == of[0]) & (F.col("incarnation") == of[1]) & F.col("sequence").between(life.first, life.last)
        )
        numbers = there.select("sequence").distinct()
        if numbers.count() < life.last - life.first + 1:
            found = gaps((row.sequence for row in numbers.orderBy("sequence").toLocalIterator()), first=life.first, last=life.last)
            missing[of] = without(found, erased.get(of, []))
    count = sum(last - first + 1 for ranges in missing.values() for first, last in ranges)
    named = (f"{stream} {incarnation}: {first}-{last}" for (stream, incarnation), ranges in missing.items() for first, last in ranges)
    findings.add("numbers_without_a_row", max(0, count - excused), named)
    findings.remarks["numbers_known_to_be_lost_or_repeated"] = min(count, excused)


def gaps(numbers: Iterable[int], *, first: int, last: int) -> Ranges:
    """The numbers between first and last that are not among these, which are sorted. Pure."""
    found, wanted = [], first
    for number in numbers:
        if number > wanted:
            found.append((wanted, number - 1))
        wanted = number + 1
    return [*found, (wanted, last)] if wanted <= last else found


def without(ranges: Ranges, others: Ranges) -> Ranges:
    """The ranges less the others; one pass through both, since there may be very many. Pure."""
    left: Ranges = []
    taken = sorted(others)
    at = 0
    for low, high in ranges:
        while at < len(taken) and taken[at][1] < low:
            at += 1
        start, here = low, at
        while here < len(taken) and taken[here][0] <= high:
            if taken[here][0] > start:
                left.append((start, taken[here][0] - 1))
            start = max(start, taken[here][1] + 1)
            here += 1
        if start <= high:
            left.append((start, high))
    return left
