"""Owns erasing from gold: what only erased events have said, and names that no event bears any more.

It is done before the rows of `events` go, and by the same condition: whoever is killed in between does it again and comes to the same.
How far a table has counted stays as it is: what was counted is not counted again, and what is new is taken in by the next refresh.
"""

from __future__ import annotations

import uuid
from collections.abc import Collection, Sequence
from dataclasses import replace
from functools import reduce

from pyspark.sql import Column, DataFrame, Row
from pyspark.sql import functions as F

from analytics.archive import Archive
from analytics.erase_selection import Selection
from analytics.gold import in_partitions
from analytics.gold_commits import following
from analytics.gold_drift import drift_as_parts, drift_parts, merged_drift
from analytics.gold_news import counted_since, counters_of
from analytics.gold_tables import SCHEMA_DRIFT, TRAFFIC_HOURLY
from analytics.kept import is_there, open_gold
from analytics.synced import as_unavailable

NAMES = ("tenant_id", "source", "event_type")
NAMES_SCHEMA = "tenant_id STRING, source STRING, event_type STRING"


def erase_from_gold(archive: Archive, *, selection: Selection) -> None:
    """One commit of each table that has something to lose; `processors_hourly` names nobody. Raises TableUnavailable, NotTheArchive."""
    with as_unavailable(archive.table.location, cannot="be looked through for what gold has of it"):
        met = met_by(selection, events=archive.table.dataframe()).collect()
        # Drift first: of events that are gone already only traffic still tells which types they had.
        types = {row.event_type for row in met} | types_in_traffic(archive, selection=selection)
        erase_drift(archive, selection=selection, types=types)
        erase_traffic(archive, selection=selection, nameless=[row for row in met if not row.stays])


def met_by(selection: Selection, *, events: DataFrame) -> DataFrame:
    """Whose types of event lose some, and how many are left of each."""
    marked = events.where("event_type IS NOT NULL").select(*NAMES, is_going(selection).alias("goes"))
    counted = marked.groupBy(*NAMES).agg(F.count_if("goes").alias("goes"), F.count_if(~F.col("goes")).alias("stays"))
    return counted.where("goes > 0")


def is_going(selection: Selection) -> Column:
    """Never NULL, so that its opposite means all others."""
    return F.coalesce(selection.condition(), F.lit(False))


def types_in_traffic(archive: Archive, *, selection: Selection) -> set[str]:
    """The types of event that a tenant or a source has ever had, when it goes with all that it has."""
    if not selection.is_whole or not is_there(archive, TRAFFIC_HOURLY):
        return set()
    rows = open_gold(archive, TRAFFIC_HOURLY).dataframe().where(is_going(selection)).select("event_type").distinct().collect()
    return {row.event_type for row in rows if row.event_type is not None}


def erase_drift(archive: Archive, *, selection: Selection, types: Collection[str]) -> None:
    """Makes the rows of these types anew, from the events that stay and that were counted."""
    if not types or not is_there(archive, SCHEMA_DRIFT):
        return
    chain = open_gold(archive, SCHEMA_DRIFT)
    last = chain.newest_commit(run=uuid.uuid4().hex)
    is_met, where = F.col("event_type").isin(*types), in_partitions("namespace", [one.partition(".")[0] for one in types])
    stored = chain.dataframe().where(where)
    if stored.where(is_met).isEmpty():
        return
    counted = archive.table.dataframe().where(is_met & ~is_going(selection) & (F.col("batch") <= last.consumed.get("events", 0)))
    parts = reduce(DataFrame.unionByName, drift_parts(counted), drift_as_parts(stored.where(~is_met)))
    archive.check_lease()
    if last.number:
        chain.replace_rows(merged_drift(parts).coalesce(1), where=where, commit=following(last))
    else:
        chain.repeat(last)


def erase_traffic(archive: Archive, *, selection: Selection, nameless: Sequence[Row]) -> None:
    """Removes what names a tenant or a source that goes whole, or a type of event that nobody's event has any more.

    Duplicates and refusals that no refresh has seen yet are taken as seen: the next one would name whose they are.
    """
    counted = {whose: of for whose, of in counters_of(archive.log.counts()).items() if selection.takes_all_of(whose)}
    if not (counted or is_there(archive, TRAFFIC_HOURLY)) or not (selection.is_whole or nameless):
        return
    chain = open_gold(archive, TRAFFIC_HOURLY)
    last = chain.newest_commit(run=uuid.uuid4().hex)
    unseen, last = counted_since(last.counters, counted), replace(last, counters={**last.counters, **counted})
    marked = marked_traffic(chain.dataframe(), selection=selection, nameless=nameless)
    dates = [row.date for row in marked.where("goes").select("date").distinct().collect()]
    archive.check_lease()
    if dates and last.number:
        where = in_partitions("date", dates)
        staying = marked.where(where).where("NOT goes").select(*(column.name for column in TRAFFIC_HOURLY.columns))
        chain.replace_rows(staying.coalesce(1), where=where, commit=following(last))
    elif dates or unseen:
        chain.repeat(last)


def marked_traffic(stored: DataFrame, *, selection: Selection, nameless: Sequence[Row]) -> DataFrame:
    """The rows, and whether each `goes`."""
    if selection.is_whole:
        return stored.withColumn("goes", is_going(selection))
    names = stored.sparkSession.createDataFrame([tuple(row[name] for name in NAMES) for row in nameless], NAMES_SCHEMA)
    marked = stored.join(F.broadcast(names.withColumn("goes", F.lit(True))), on=list(NAMES), how="left")
    return marked.withColumn("goes", F.coalesce("goes", F.lit(False)))
