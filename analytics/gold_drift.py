"""Owns `schema_drift`: which members payloads of each type of event have, of which types, and since when."""

from __future__ import annotations

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from analytics.gold_news import News
from analytics.gold_tables import SCHEMA_DRIFT
from analytics.shapes import paths_of

# So many different shapes are taken in by one refresh, the most frequent first: payloads that hardly ever repeat are no schema.
MOST_SHAPES = 2000
# So many paths are kept of a type of event, the oldest; all further ones are one row.
MOST_PATHS = 1000
FURTHER = "(further)"
KEYS = ("namespace", "event_type", "path", "type")
PARTS = (
    "namespace STRING, event_type STRING, path STRING, type STRING, events BIGINT, "
    "first STRUCT<first_seen: TIMESTAMP, first_event: STRING>, last_seen TIMESTAMP"
)


def news_of_drift(news: News) -> list[DataFrame]:
    """The paths of new payloads; several rows may have the same keys."""
    events = news.rows("events")
    return [] if events is None else drift_parts(events)


def drift_parts(events: DataFrame) -> list[DataFrame]:
    """The same of any rows of `events`."""
    shapes = shapes_of(events).orderBy(F.desc("events")).limit(MOST_SHAPES).collect()
    rows = [
        (shape.event_type.partition(".")[0], shape.event_type, path, kind, shape.events, shape.first, shape.last_seen)
        for shape in shapes
        for path, kind in paths_of(shape.shape)
    ]
    return [events.sparkSession.createDataFrame(rows, PARTS)] if rows else []


def shapes_of(events: DataFrame) -> DataFrame:
    """The different shapes of payloads, by type of event; an event that has no payload has none."""
    shape = F.schema_of_variant("payload")
    first = F.min(F.struct(F.col("received_at").alias("first_seen"), F.col("id").alias("first_event")))
    grouped = events.where("payload IS NOT NULL AND event_type IS NOT NULL").groupBy("event_type", shape.alias("shape"))
    return grouped.agg(F.count("*").alias("events"), first.alias("first"), F.max("received_at").alias("last_seen"))


def merged_drift(parts: DataFrame) -> DataFrame:
    """One row for each of the keys, as the table has them; at most MOST_PATHS of a type of event, and one for all others."""
    merged = _merged(parts)
    place = F.row_number().over(Window.partitionBy("event_type").orderBy("first.first_seen", "path", "type"))
    is_kept = (F.col("place") <= MOST_PATHS) | (F.col("path") == FURTHER)
    bounded = merged.withColumn("place", place).withColumns(
        {name: F.when(is_kept, F.col(name)).otherwise(FURTHER) for name in ("path", "type")}
    )
    return _merged(bounded).select(
        *(column.name if column.name in merged.columns else f"first.{column.name}" for column in SCHEMA_DRIFT.columns)
    )


def _merged(parts: DataFrame) -> DataFrame:
    sums = (F.sum("events").alias("events"), F.min("first").alias("first"), F.max("last_seen").alias("last_seen"))
    return parts.groupBy(*KEYS).agg(*sums)


def drift_as_parts(stored: DataFrame) -> DataFrame:
    """What the table has, as what can be merged with more."""
    return stored.select(*KEYS, "events", F.struct("first_seen", "first_event").alias("first"), "last_seen")
