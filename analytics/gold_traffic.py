"""Owns `traffic_hourly`: from new events, new outcomes and the ledger's counts to sums by hour. DataFrame to DataFrame, no I/O but a look
at the ids of the outcomes."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from analytics.gold_hourly import Hourly
from analytics.gold_news import News
from analytics.gold_tables import TRAFFIC_HOURLY
from analytics.sketches import sketch_of

TRAFFIC = Hourly(
    TRAFFIC_HOURLY,
    names=("tenant_id", "source", "event_type"),
    sums=("events", "bytes", "conflicts", "duplicates", "refusals", "processed"),
    latencies=("archive", "processing"),
)
# An event of longer ago was replayed, or lay in a backlog: how long it took says nothing about processing, and to find it costs a look
# through the whole table.
RECENT_MS = 2 * 24 * 3_600_000


def news_of_traffic(news: News) -> list[DataFrame]:
    """Sums of what is new; several rows may have the same keys."""
    events, outcomes = news.rows("events"), news.rows("outcomes")
    found = [received(events)] if events is not None else []
    if outcomes is not None and "events" in news.tables:
        found.append(processed(outcomes, events=news.tables["events"]))
    if news.counted:
        found.append(counted(news))
    return found


def received(events: DataFrame) -> DataFrame:
    """From rows of `events` with the time of their commit."""
    latency_ms = F.col("committed_ms") - F.unix_millis("received_at")
    return TRAFFIC.parts(
        events,
        hour_of=F.col("received_at"),
        events=F.count("*"),
        bytes=F.coalesce(F.sum(F.length("body")), F.lit(0)),
        conflicts=F.count_if("conflict"),
        archive_sketch=sketch_of(F.greatest(latency_ms, F.lit(0))),
    )


def processed(outcomes: DataFrame, *, events: DataFrame) -> DataFrame:
    """From rows of `outcomes`: acks of recent events, with whose they were."""
    acked = outcomes.where("kind = 'outcome' AND step = 'ack'").where(is_recent("event_id"))
    least, most = acked.agg(F.min("event_id"), F.max("event_id")).collect()[0]
    # Ids grow with time, and each file of `events` records its least and its greatest: so few of them are opened.
    known = events.where(F.col("id").between(least or "", most or "")).select("id", "tenant_id", "source", "event_type")
    joined = acked.select("event_id", "started_at", "duration_ms").join(known, on=F.col("event_id") == F.col("id"), how="left")
    latency_ms = F.greatest(ended_ms() - minted_ms("event_id"), F.lit(0))
    return TRAFFIC.parts(joined, hour_of=F.col("started_at"), processed=F.count("*"), processing_sketch=sketch_of(latency_ms))


def counted(news: News) -> DataFrame:
    """From what the ledger has counted since; nobody wrote down when, so it was now."""
    rows = [(news.now, *whose.partition(":")[::2], duplicates, refusals) for whose, (duplicates, refusals) in news.counted.items()]
    given = news.spark.createDataFrame(rows, "at TIMESTAMP, tenant_id STRING, source STRING, duplicates BIGINT, refusals BIGINT")
    of_no_type = given.withColumn("event_type", F.lit(None).cast("string"))
    return TRAFFIC.parts(of_no_type, hour_of=F.col("at"), duplicates=F.sum("duplicates"), refusals=F.sum("refusals"))


def minted_ms(event_id: str) -> Column:
    """When the receiver minted an event's id: a UUIDv7 begins with that."""
    digits = F.concat(F.substring(event_id, 1, 8), F.substring(event_id, 10, 4))
    return F.conv(digits, 16, 10).cast("bigint")


def is_recent(event_id: str) -> Column:
    """Whether the event of an attempt had been received shortly before."""
    return minted_ms(event_id) > F.unix_millis("started_at") - RECENT_MS


def ended_ms() -> Column:
    """When an attempt ended, by the worker's clock."""
    return F.unix_millis("started_at") + F.col("duration_ms")
