"""Owns writing down which events that groups are owed an erasure takes: they are off the log, so only their rows tell their numbers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import closing
from functools import reduce

from pyspark.sql import Column, Row
from pyspark.sql import functions as F

from analytics.archive import Archive
from analytics.erase_selection import Selection
from infra.streams.erasing import Erasing, Numbers
from infra.streams.owed import Owed, OwedItem, OwedRange

Spans = dict[tuple[str, str], tuple[int, int]]
"""From the least to the greatest number that anybody is owed, by stream (`2:default`) and incarnation."""


def note_owed(log: Erasing, *, archive: Archive, selection: Selection) -> None:
    """Before the rows go; without it the refill would find numbers without rows, and count them as lost to their group."""
    with closing(Owed.open(archive.log_settings, home=archive.home)) as owed:
        creditors = owed.creditors().items()
        spans = spans_of((shard, item) for group, shards in creditors for shard in shards for item in owed.items(group, shard=shard))
    if spans:
        going = archive.table.dataframe().where(selection.condition()).where(is_within(spans))
        rows = going.select("stream", "incarnation", "sequence").orderBy("stream", "incarnation", "sequence")
        log.note_numbers(in_ranges(rows.toLocalIterator()))


def spans_of(items: Iterable[tuple[int, OwedItem]]) -> Spans:
    """Of what is owed in each shard. Pure."""
    found: Spans = {}
    for shard, item in items:
        first, last = (item.first, item.last) if isinstance(item, OwedRange) else (item.number, item.number)
        if first:
            at = (f"{shard}:{item.stream}", item.incarnation)
            low, high = found.get(at, (first, last))
            found[at] = (min(low, first), max(high, last))
    return found


def is_within(spans: Spans) -> Column:
    conditions = (
        (F.col("stream") == stream) & (F.col("incarnation") == incarnation) & F.col("sequence").between(first, last)
        for (stream, incarnation), (first, last) in spans.items()
    )
    return reduce(Column.__or__, conditions)


def in_ranges(rows: Iterable[Row]) -> Iterator[Numbers]:
    """Rows in the order of their numbers, those that follow each other together. Pure."""
    begun: Numbers | None = None
    for stream, incarnation, number in rows:
        if begun is not None and (stream, incarnation, number - 1) == (begun.stream, begun.incarnation, begun.last):
            begun = begun._replace(last=number)
            continue
        if begun is not None:
            yield begun
        begun = Numbers(stream, incarnation, number, number)
    if begun is not None:
        yield begun
