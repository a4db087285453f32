"""Owns the gold tables: every column, declared once. They are made from the other tables, and a refresh rewrites what it touches.

<archive.path>/traffic_hourly      what came, by hour, tenant, source and type
<archive.path>/processors_hourly   what processors did, by hour, group and processor
<archive.path>/schema_drift        which members payloads have, by type of event
"""

from __future__ import annotations

from analytics.sketches import PERCENTILES
from analytics.tables import Column, Table


def _latency(name: str, what: str) -> tuple[Column, ...]:
    """The percentiles of a latency, and the sketch that they were read from."""
    percentiles = (Column(f"{name}_p{percent}_ms", "DOUBLE", f"What {percent} of 100 stay below of: {what}") for percent in PERCENTILES)
    sketch = Column(f"{name}_sketch", "BINARY", f"Merge it with kll_merge_agg_double to get percentiles over several rows: {what}")
    return (*percentiles, sketch)


DATE = Column("date", "DATE", "The UTC date of hour; the table is partitioned by it, so put it into every WHERE.")
HOUR = Column("hour", "TIMESTAMP", "The hour, by its beginning.")

TRAFFIC_HOURLY = Table(
    name="traffic_hourly",
    streams=(),
    partitioned_by="date",
    columns=(
        DATE,
        HOUR,
        Column("tenant_id", "STRING", "Whose events; NULL for deliveries of events that are not archived."),
        Column("source", "STRING", "The configured sender; NULL where tenant_id is."),
        Column(
            "event_type", "STRING", "What happened; NULL in rows of duplicates and refusals, which are counted for a source as a whole."
        ),
        Column("events", "BIGINT", "How many events were received in that hour."),
        Column("bytes", "BIGINT", "What their bodies weigh."),
        Column("conflicts", "BIGINT", "How many of them came under a delivery id that was used before, for another body."),
        Column("duplicates", "BIGINT", "How many requests were recognised as repeated, by the hour in which that was noticed here."),
        Column("refusals", "BIGINT", "How many requests were refused, kept in quarantine or not; by the same hour."),
        *_latency("archive", "from the receiver until a commit of `events` had the row."),
        Column("processed", "BIGINT", "How many deliveries groups have acked in that hour, of events up to two days old."),
        *_latency("processing", "from the receiver until a group had acked it."),
    ),
    indexed=("hour", "tenant_id", "source", "event_type"),
)

PROCESSORS_HOURLY = Table(
    name="processors_hourly",
    streams=(),
    partitioned_by="date",
    columns=(
        DATE,
        HOUR,
        Column("group_name", "STRING", "The group."),
        Column("processor", "STRING", "The processor; empty where none wanted the event, NULL in rows of decisions."),
        Column("attempts", "BIGINT", "How many attempts ended, by the hour in which they began."),
        Column("acked", "BIGINT", "How many of them were acked."),
        Column("retried", "BIGINT", "How many are to be tried again."),
        Column("dead", "BIGINT", "How many became dead letters."),
        Column("parked", "BIGINT", "How many were set aside for a later release."),
        Column("requeued", "BIGINT", "How many dead letters of the group were requeued in that hour."),
        Column("discarded", "BIGINT", "How many were discarded."),
        *_latency("run", "one attempt."),
        *_latency("latency", "from the receiver until the ack, of events up to two days old."),
    ),
    indexed=("hour", "group_name", "processor"),
)

SCHEMA_DRIFT = Table(
    name="schema_drift",
    streams=(),
    partitioned_by="namespace",
    columns=(
        Column("namespace", "STRING", "The first word of event_type, such as github; the table is partitioned by it."),
        Column("event_type", "STRING", "The type of the events."),
        Column(
            "path", "STRING", "A member of their payloads, such as commits[].author.name; `*` stands for names that are data themselves."
        ),
        Column(
            "type", "STRING", "What stood there: object, array, string, integer, number, boolean or null; mixed for elements that differ."
        ),
        Column("events", "BIGINT", "How many events had that."),
        Column("first_seen", "TIMESTAMP", "When the first of them was received."),
        Column("first_event", "STRING", "The id of that one."),
        Column("last_seen", "TIMESTAMP", "When the last of them was received."),
    ),
    indexed=("event_type", "path", "type", "first_seen", "last_seen"),
)

GOLD_TABLES = (TRAFFIC_HOURLY, PROCESSORS_HOURLY, SCHEMA_DRIFT)
