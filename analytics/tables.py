"""Owns the tables: every column, its type and what it means, declared once; creates them and refuses a table that differs.

<archive.path>/events: one row for every event that was ever accepted, partitioned by the date it was received.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import cast

from delta.tables import DeltaTable
from pyspark.sql import SparkSession
from pyspark.sql.types import DataType, StructType

from schemas.errors import SchemaDrift


@dataclass(frozen=True, slots=True)
class Column:
    """A column as SQL knows it."""

    name: str
    type: str
    comment: str


@dataclass(frozen=True, slots=True)
class Table:
    """What a table looks like, wherever it is stored."""

    name: str
    partitioned_by: str
    columns: tuple[Column, ...]
    indexed: tuple[str, ...]
    """Columns whose least and greatest value each file records, so that a query opens only the files it needs."""

    @property
    def schema(self) -> StructType:
        schema = StructType.fromDDL(", ".join(f"`{column.name}` {column.type}" for column in self.columns))
        return cast(StructType, schema)


AUTH_CONTEXT = (
    "STRUCT<scheme: STRING, key_id: STRING, signature_headers: MAP<STRING, STRING>, signed_url: STRING, "
    "verified_at: TIMESTAMP, remote_address: STRING>"
)
PART = "STRUCT<number: INT, of: INT, body_sha256: STRING, before: STRING, after: STRING>"

EVENTS = Table(
    name="events",
    partitioned_by="received_date",
    columns=(
        Column("id", "STRING", "The event's id, a UUIDv7 that the receiver minted; unique in this table."),
        Column("tenant_id", "STRING", "Whose event it is."),
        Column("source", "STRING", "The configured sender it came from."),
        Column("event_type", "STRING", "What happened, such as github.pull_request.opened."),
        Column("repository", "STRING", "The subject: owner/repo for forges, else what the source points at; empty when there is none."),
        Column("delivery_id", "STRING", "The sender's own id of the delivery, the same over its retries; empty when it sends none."),
        Column("key", "STRING", "The ordering key; empty when the source has none."),
        Column("priority", "STRING", "The stream it was appended to: urgent, default, low or overflow."),
        Column("received_at", "TIMESTAMP", "When the receiver had the whole request."),
        Column("received_date", "DATE", "The UTC date of received_at; the table is partitioned by it, so put it into every WHERE."),
        Column("body", "BINARY", "The raw body, byte for byte as it was sent; of a part, its slice of it."),
        Column("body_sha256", "STRING", "The digest of body, as the receiver computed it."),
        Column("content_type", "STRING", "The request's Content-Type."),
        Column("headers", "MAP<STRING, STRING>", "The allow-listed request headers, names in lower case."),
        Column("auth_context", AUTH_CONTEXT, "How the receiver came to believe the sender."),
        Column("traceparent", "STRING", "The W3C trace context the event travels under."),
        Column("part", PART, "Which slice of its request's body it is; NULL for an event that is the whole body."),
        Column("flags", "ARRAY<STRING>", "What the receiver remarked about it, such as schema_mismatch; NULL for nothing."),
        Column("version", "INT", "The version of the event's wire form."),
        Column("conflict", "BOOLEAN", "True when the sender had used this delivery id before, for another body."),
        Column("payload", "VARIANT", "The body parsed as JSON; NULL when it is not JSON."),
        Column("parse_error", "STRING", "Why payload is NULL; NULL when it is not."),
        Column("stream", "STRING", "The stream it was read from: shard and name, such as 2:default."),
        Column("incarnation", "STRING", "Which life of the log entry_id and sequence count in."),
        Column("entry_id", "STRING", "Its position in the stream."),
        Column("sequence", "BIGINT", "Its number, gapless within stream and incarnation."),
        Column("batch", "BIGINT", "The archive's commit that brought it here."),
        Column("archived_at", "TIMESTAMP", "When that batch was planned."),
        Column("raw_entry", "BINARY", "Only for an entry that is no event: its fields, as JSON of base64 texts by name."),
        Column("decode_error", "STRING", "Why the entry is no event; NULL for every other row."),
    ),
    indexed=("id", "tenant_id", "source", "event_type", "delivery_id", "received_at", "stream", "incarnation", "sequence", "batch"),
)

TABLES = (EVENTS,)


def open_table(spark: SparkSession, *, table: Table, location: str) -> None:
    """Creates the table when it is missing; raises SchemaDrift when what is stored there cannot take our rows."""
    builder = DeltaTable.createIfNotExists(spark).location(location).partitionedBy(table.partitioned_by)
    for column in table.columns:
        builder = builder.addColumn(column.name, column.type, comment=column.comment)
    # A checkpoint costs as much as a batch: fewer of them, since reading fifty small log entries is quick.
    builder = builder.property("delta.checkpointInterval", "50")
    builder = builder.property("delta.dataSkippingStatsColumns", ",".join(table.indexed))
    if DeltaTable.isDeltaTable(spark, location):
        refuse_drift(table, stored=DeltaTable.forPath(spark, location).toDF().schema, location=location)
    else:
        builder.execute()


def refuse_drift(table: Table, *, stored: StructType, location: str) -> None:
    """Raises SchemaDrift for the first column that has another type; columns that are missing are added by the next append."""
    for name, ours, theirs in different_types(table.schema, stored):
        raise SchemaDrift(
            f"the column {name} of {location} is {theirs.simpleString()}, and the archive writes {ours.simpleString()}: nothing is "
            "archived until the table is moved away or its column is changed back"
        )


def different_types(ours: StructType, stored: StructType, *, at: str = "") -> Iterator[tuple[str, DataType, DataType]]:
    """The columns, and the fields of structs, that both have and that differ. Pure."""
    by_name = {field.name: field.dataType for field in stored.fields}
    for field in ours.fields:
        theirs = by_name.get(field.name, field.dataType)
        if isinstance(field.dataType, StructType) and isinstance(theirs, StructType):
            yield from different_types(field.dataType, theirs, at=f"{at}{field.name}.")
        elif theirs.simpleString() != field.dataType.simpleString():
            yield f"{at}{field.name}", field.dataType, theirs
