"""Owns what a refresh of a gold table takes in: the rows that other tables have got since, and what the ledger has counted since."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from analytics.commits import commit_in
from analytics.delta_log import DeltaLog, is_table
from infra.streams.ledger import Counts

# Further back the times of commits are not looked up: a table that is read for the first time may have years of them.
MOST_COMMITS = 300
# About how many rows one refresh takes in at most; the rest is left to the next one, so that the archive need not wait for long.
MOST_ROWS = 1_000_000
# So many batches are some minutes: nobody needs to count how many rows they have.
FEW_BATCHES = 200

Counters = Mapping[str, tuple[int, int]]


@dataclass(frozen=True, slots=True)
class Committed:
    """What a table has got since a version of it."""

    batch: int
    """Its newest one."""
    version: int
    at_ms: Mapping[int, int]
    """When its newest batches were committed."""
    is_restored: bool = False
    """Whether somebody has brought back an older state: batches that were counted may be gone, and come again under other numbers."""


def committed(spark: SparkSession, *, location: str, after: int, since: int) -> Committed | None:
    """Looked up in the files of the table's log, without a Spark job; None for a table that does not exist.

    `after` is the batch and `since` the version up to which it is counted, -1 for none.
    """
    if not is_table(spark, location=location):
        return None
    log = DeltaLog(spark, location=location)
    newest = log.newest()
    entries = list(
        itertools.islice(itertools.takewhile(lambda entry: entry.version > since, log.downwards(start=newest.version)), MOST_COMMITS)
    )
    at_ms = {commit.batch: entry.committed_at_ms for entry in entries if (commit := commit_in(entry)) is not None}
    batch = max(at_ms, default=after)
    is_restored = newest.version < since or batch < after or (since >= 0 and any(entry.restored_to is not None for entry in entries))
    return Committed(batch, newest.version, at_ms, is_restored)


@dataclass(frozen=True, slots=True)
class Batches:
    """Which batches of a table a refresh takes in: (after, to]."""

    after: int
    to: int
    at_ms: Mapping[int, int]


@dataclass(frozen=True, slots=True)
class News:
    """All of it, for one refresh."""

    spark: SparkSession
    tables: Mapping[str, DataFrame]
    """Whole tables, those that exist."""
    batches: Mapping[str, Batches]
    counted: Counters
    """Duplicates and refusals by tenant:source, since the last refresh."""
    now: datetime

    def rows(self, table: str) -> DataFrame | None:
        """The new rows of a table, each with when its batch was committed; None when there are none."""
        of = self.batches.get(table)
        if of is None or of.to <= of.after:
            return None
        # By batch, not by version: a compaction moves rows to other versions, and leaves their batches as they are.
        new = self.tables[table].where((F.col("batch") > of.after) & (F.col("batch") <= of.to))
        times = self.spark.createDataFrame(list(of.at_ms.items()), "batch BIGINT, committed_ms BIGINT")
        joined = new.join(F.broadcast(times), on="batch", how="left")
        return joined.withColumn("committed_ms", F.coalesce("committed_ms", F.unix_millis("archived_at")))


def last_batch_within(rows: DataFrame, *, after: int, to: int) -> int:
    """The batch up to which about MOST_ROWS rows lie after `after`, and at least one batch; `to` when there are fewer."""
    if to - after <= FEW_BATCHES:
        return to
    some = rows.where((F.col("batch") > after) & (F.col("batch") <= to)).select("batch").orderBy("batch").limit(MOST_ROWS)
    count, last = some.agg(F.count("*"), F.max("batch")).collect()[0]
    return to if count < MOST_ROWS else int(last)


def counters_of(counts: Counts) -> dict[str, tuple[int, int]]:
    """What the ledger has counted in all, by tenant:source. Pure."""
    sources = {*counts.duplicates, *counts.quarantined, *counts.unkept}
    return {
        f"{tenant}:{source}": (
            counts.duplicates.get((tenant, source), 0),
            counts.quarantined.get((tenant, source), 0) + counts.unkept.get((tenant, source), 0),
        )
        for tenant, source in sorted(sources)
    }


def counted_since(before: Counters, now: Counters) -> dict[str, tuple[int, int]]:
    """The difference, of sources that have one; a ledger that counts less than it did was wiped, and all it counts is new. Pure."""
    found = {}
    for whose, (duplicates, refusals) in now.items():
        was_duplicates, was_refusals = before.get(whose, (0, 0))
        more = (_more(duplicates, was_duplicates), _more(refusals, was_refusals))
        if any(more):
            found[whose] = more
    return found


def _more(now: int, before: int) -> int:
    return now - before if now >= before else now
