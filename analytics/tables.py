"""Owns the tables: every column, its type and what it means, declared once, and the streams that fill each.

    <archive.path>/events         one row for every event that was ever accepted, partitioned by the date it was received
    <archive.path>/dead_letters   one row for every dead letter, and one for each decision about one
    <archive.path>/outcomes       one row for every settled delivery, and one for each alias of an event's id
    <archive.path>/quarantine     one row for every request that was refused and kept aside, and one for each decision about one

One stream fills one table. The last three are partitioned by the date on which the log took the entry.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast

from pyspark.sql.types import StructType

from infra.streams.keys import EVENT_STREAMS


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
    streams: tuple[str, ...]
    """The streams of each shard that fill it, by the names under which the ledger numbers them."""
    partitioned_by: str
    columns: tuple[Column, ...]
    indexed: tuple[str, ...]
    """Columns whose least and greatest value each file records, so that a query opens only the files it needs."""

    @property
    def schema(self) -> StructType:
        schema = StructType.fromDDL(", ".join(f"`{column.name}` {column.type}" for column in self.columns))
        return cast(StructType, schema)


POSITION = (
    Column("stream", "STRING", "The stream it was read from: shard and name, such as 2:default or 0:dead."),
    Column("incarnation", "STRING", "Which life of the log entry_id and sequence count in."),
    Column("entry_id", "STRING", "Its position in the stream."),
    Column("sequence", "BIGINT", "Its number, gapless within stream and incarnation."),
    Column("batch", "BIGINT", "The archive's commit that brought it here."),
    Column("archived_at", "TIMESTAMP", "When that batch was planned."),
    Column("raw_entry", "BINARY", "Only for an entry that could not be read: its fields, as JSON of base64 texts by name."),
    Column("decode_error", "STRING", "Why the entry could not be read; NULL for every other row."),
)
"""What every table has: where a row comes from, and what could not be read."""
RECORDED = (
    Column("recorded_at", "TIMESTAMP", "When the log took the entry, by its own clock."),
    Column("recorded_date", "DATE", "The UTC date of recorded_at; the table is partitioned by it, so put it into every WHERE."),
)
DECISION = (
    Column("state", "STRING", "What was decided; NULL in every other row."),
    Column("decided_by", "STRING", "Who decided it, as user@host; NULL in every other row."),
    Column("because", "STRING", "Why, in that person's words; NULL in every other row."),
)

AUTH_CONTEXT = (
    "STRUCT<scheme: STRING, key_id: STRING, signature_headers: MAP<STRING, STRING>, signed_url: STRING, "
    "verified_at: TIMESTAMP, remote_address: STRING>"
)
PART = "STRUCT<number: INT, of: INT, body_sha256: STRING, before: STRING, after: STRING>"

EVENTS = Table(
    name="events",
    streams=EVENT_STREAMS,
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
        Column("payload", "VARIANT", "The body parsed as JSON; NULL where `parse_error` says why not."),
        Column("parse_error", "STRING", "Why payload is NULL; NULL when it is not."),
        *POSITION,
    ),
    indexed=("id", "tenant_id", "source", "event_type", "delivery_id", "received_at", "stream", "incarnation", "sequence", "batch"),
)

DEAD_LETTERS = Table(
    name="dead_letters",
    streams=("dead",),
    partitioned_by="recorded_date",
    columns=(
        Column("record", "STRING", "letter for a dead letter, state for a decision about one."),
        Column("letter_id", "STRING", "Shard and entry id of the letter, as `dead-letters list` has it; a decision names its letter."),
        Column("group_name", "STRING", "The group that gave up on the event."),
        Column("processor", "STRING", "The processor that had it."),
        Column("reason", "STRING", "Why it was given up."),
        Column("error", "STRING", "The last error's class and message."),
        Column("traceback", "STRING", "Where the last error was raised."),
        Column("first_error", "STRING", "The first error's class and message; empty where the first attempts left none."),
        Column("first_traceback", "STRING", "Where the first error was raised."),
        Column("attempts", "INT", "How often it was tried."),
        Column("dead_at", "TIMESTAMP", "When it was given up, by the worker's clock."),
        Column("from_stream", "STRING", "The key of the stream that its last delivery came from."),
        Column("from_entry", "STRING", "The entry id there."),
        Column("event_id", "STRING", "The event's id: its row in events has the rest."),
        Column("tenant_id", "STRING", "Whose event it is."),
        Column("source", "STRING", "The configured sender it came from."),
        Column("event_type", "STRING", "What had happened."),
        Column("delivery_id", "STRING", "The sender's own id of the delivery."),
        Column("received_at", "TIMESTAMP", "When the receiver had the whole request."),
        Column("body", "BINARY", "The raw body, as it stood in the letter."),
        Column("body_sha256", "STRING", "The digest of body, as the receiver computed it."),
        *DECISION,
        *RECORDED,
        *POSITION,
    ),
    indexed=("letter_id", "group_name", "event_id", "tenant_id", "source", "recorded_at", "stream", "incarnation", "sequence", "batch"),
)

OUTCOMES = Table(
    name="outcomes",
    streams=("outcomes",),
    partitioned_by="recorded_date",
    columns=(
        Column("kind", "STRING", "outcome for a settled delivery; alias for an id whose event turned out to be an earlier one."),
        Column("event_id", "STRING", "The event that was delivered; of an alias, the id that the sender was given."),
        Column("first_id", "STRING", "Of an alias, the event that there is; NULL in every other row."),
        Column("tenant_id", "STRING", "Of an alias, whose it is; NULL in every other row: events has it."),
        Column("source", "STRING", "Of an alias, the sender it came from; NULL in every other row."),
        Column("group_name", "STRING", "The group it was delivered to."),
        Column("consumer", "STRING", "The worker that had it."),
        Column("processor", "STRING", "The processor that ran; empty where none of the group wants the event."),
        Column("attempt", "INT", "Which attempt this was, from 1."),
        Column("step", "STRING", "What became of the delivery: ack, retry, dead_letter or park."),
        Column("started_at", "TIMESTAMP", "When the attempt began, by the worker's clock."),
        Column("duration_ms", "DOUBLE", "How long it took."),
        Column("from_stream", "STRING", "The key of the stream that it was delivered from."),
        Column("place", "INT", "Which delivery of its entry, from 1: a worker settles many at once."),
        *RECORDED,
        *POSITION,
    ),
    indexed=("event_id", "group_name", "processor", "step", "started_at", "recorded_at", "stream", "incarnation", "sequence", "batch"),
)

QUARANTINE = Table(
    name="quarantine",
    streams=("quarantine",),
    partitioned_by="recorded_date",
    columns=(
        Column("record", "STRING", "request for a refused request, state for a decision about one."),
        Column("request_id", "STRING", "Shard and entry id of the request, as `quarantine list` has it; a decision names its request."),
        Column("event_id", "STRING", "The id that its event has if it was released."),
        Column("tenant_id", "STRING", "Whose source it was sent to."),
        Column("source", "STRING", "The source it was sent to."),
        Column("code", "STRING", "What the sender was told, such as bad_signature."),
        Column("reason", "STRING", "Why it was refused, for us alone."),
        Column("received_at", "TIMESTAMP", "When the receiver had the whole request."),
        Column("remote_address", "STRING", "Who sent it."),
        Column("query", "STRING", "The query of its address, only where the scheme signs the address."),
        Column("headers", "MAP<STRING, STRING>", "The request's headers, but for those that carry a secret."),
        Column("removed_headers", "ARRAY<STRING>", "The names of those that were not kept, because they carry a secret."),
        Column("repeated_headers", "ARRAY<STRING>", "Those that came more than once; the first value is kept."),
        Column("body", "BINARY", "The raw body, byte for byte as it was sent."),
        *DECISION,
        *RECORDED,
        *POSITION,
    ),
    indexed=("request_id", "event_id", "tenant_id", "source", "code", "recorded_at", "stream", "incarnation", "sequence", "batch"),
)

TABLES = (EVENTS, DEAD_LETTERS, OUTCOMES, QUARANTINE)
RECORDS = (DEAD_LETTERS, OUTCOMES, QUARANTINE)
"""What is archived beside events: less urgent, and drained less often."""
