"""Owns what becomes of raw entries on their way into the tables: DataFrame to DataFrame, no I/O."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from functools import reduce

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from analytics.lives import Life
from analytics.tables import AUTH_CONTEXT, EVENTS, PART, Table
from infra.streams.positions import StreamName

# What is derived, as SQL: one call to Spark's JVM instead of a hundred, before every batch.
RECEIVED_AT = "timestamp_millis(timestamp)"
# A Spark STRING may hold bytes that are no UTF-8, and replaces them when it is read: parse only what is.
TEXT = "try_validate_utf8(CAST(body AS STRING))"
PAYLOAD = f"try_parse_json({TEXT})"
PARSE_ERROR = f"""
    CASE WHEN body IS NULL OR {PAYLOAD} IS NOT NULL THEN NULL
         WHEN length(body) = 0 THEN 'the body is empty'
         WHEN {TEXT} IS NULL THEN 'the body is not UTF-8'
         ELSE 'the body is not JSON, is nested too deep, or has a member twice' END"""
DERIVED = {
    "received_at": RECEIVED_AT,
    "received_date": f"to_date({RECEIVED_AT})",
    "headers": "from_json(headers, 'MAP<STRING, STRING>')",
    "auth_context": f"from_json(auth_context, '{AUTH_CONTEXT}')",
    "part": f"from_json(part, '{PART}')",
    "flags": "from_json(flags, 'ARRAY<STRING>')",
    "payload": PAYLOAD,
    "parse_error": PARSE_ERROR,
}


def to_events(raw: DataFrame, *, batch: int, archived_at: datetime) -> DataFrame:
    """The rows of `events`. The body is never touched; what is derived from it is NULL when it cannot be derived."""
    derived = {**DERIVED, "batch": f"CAST({batch} AS BIGINT)", "archived_at": f"TIMESTAMP '{archived_at.isoformat()}'"}
    return raw.selectExpr(*(f"{derived.get(column.name, column.name)} AS {column.name}" for column in EVENTS.columns))


def to_records(raw: DataFrame, *, table: Table, batch: int, archived_at: datetime) -> DataFrame:
    """The rows of a table beside `events`; its decoder has made all columns but these."""
    added = {
        "recorded_date": F.to_date("recorded_at"),
        "batch": F.lit(batch).cast("bigint"),
        "archived_at": F.lit(archived_at),
    }
    return raw.select(*(added.get(column.name, F.col(column.name)).alias(column.name) for column in table.columns))


DELIVERY = ("tenant_id", "source", "delivery_id", "body_sha256")


def without_archived(rows: DataFrame, *, archived: DataFrame) -> DataFrame:
    """The events that `archived` has neither by id, nor by position, nor as the same delivery with the same body; each once."""
    deliveries = archived.where(F.col("delivery_id") != "").select(*DELIVERY)
    left = rows.join(archived.select("id"), on="id", how="left_anti")
    left = left.join(deliveries, on=list(DELIVERY), how="left_anti")
    return first_of_each(without_positions(left, archived=archived)).select(*(column.name for column in EVENTS.columns))


def without_positions(rows: DataFrame, *, archived: DataFrame) -> DataFrame:
    """The rows of entries of which `archived` has none; an entry's rows are committed together."""
    same_position = (
        (F.col("new.stream") == F.col("old.stream"))
        & (F.col("new.entry_id") == F.col("old.entry_id"))
        # An entry that cannot be read may have no incarnation.
        & F.col("new.incarnation").eqNullSafe(F.col("old.incarnation"))
    )
    known = archived.select("stream", "entry_id", "incarnation").alias("old")
    return (
        rows.alias("new")
        .join(known, on=same_position, how="left_anti")
        .select(*(F.col(f"new.{name}").alias(name) for name in rows.columns))
    )


def first_of_each(rows: DataFrame) -> DataFrame:
    """Of the rows that are one delivery with one body, or one event, the one that was received first."""
    itself = F.coalesce("id", F.concat_ws("|", "stream", "incarnation", "entry_id"))
    identity = F.when(F.col("delivery_id") != "", F.array(*DELIVERY)).otherwise(F.array(itself))
    ordered = Window.partitionBy(identity).orderBy("received_at", "stream", F.length("entry_id"), "entry_id")
    return rows.withColumn("place", F.row_number().over(ordered)).where("place = 1")


def has_number(lives: Mapping[StreamName, Mapping[str, Life]], *, beyond_archived: bool) -> Column:
    """Whether the log gave a row's entry its number; or whether it did and no commit before has taken it in."""
    given = [
        (F.col("stream") == str(stream))
        & (F.col("incarnation") == name)
        & F.col("sequence").between(life.archived + 1 if beyond_archived else 1, life.given)
        for stream, of_stream in lives.items()
        for name, life in of_stream.items()
    ]
    return F.coalesce(reduce(Column.__or__, given, F.lit(False)), F.lit(False))
