"""Owns how entries of the streams beside events become rows: dead letters, outcomes, refused requests. Pure.

An entry that cannot be read becomes a row with its bytes, its position and why, and never fails the batch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import orjson
import pyarrow as pa  # type: ignore[import-untyped]
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    DoubleType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from analytics.raw_rows import error_text, number_of, raw_entry, text_of, time_of
from analytics.tables import Table
from infra.streams.dead_letters import OWN_FIELDS
from infra.streams.entries import Entry, Fields, decode
from infra.streams.outcomes import alias_of, unpack
from infra.streams.quarantine import LISTS
from schemas.errors import MalformedEntry
from schemas.event import to_epoch_ms

Row = dict[str, Any]
RowsOf = Callable[[Entry, str], list[Row]]
# What the batch adds to every row, in Spark.
ADDED = ("recorded_date", "batch", "archived_at")
TYPES: dict[str, DataType] = {
    "STRING": StringType(),
    "INT": IntegerType(),
    "BIGINT": LongType(),
    "DOUBLE": DoubleType(),
    "BINARY": BinaryType(),
    "TIMESTAMP": TimestampType(),
    "ARRAY<STRING>": ArrayType(StringType()),
    "MAP<STRING, STRING>": MapType(StringType(), StringType()),
}
UNREADABLE = (KeyError, ValueError, TypeError, OverflowError, MalformedEntry)
LATEST_MS = 253_402_300_799_999
"""The end of the year 9999: no time of Spark's, or of Python's, lies beyond it."""


def ddl_of(table: Table) -> str:
    return ", ".join(f"`{column.name}` {column.type}" for column in table.columns if column.name not in ADDED)


def schema_of(table: Table) -> pa.Schema:
    # By Spark's own rule, since it compares; it parses no DDL where it only reads.
    columns = [StructField(column.name, TYPES[column.type]) for column in table.columns if column.name not in ADDED]
    return to_arrow_schema(StructType(columns), timezone="UTC")


def batches_of(table: Table, rows_of: RowsOf) -> Callable[..., Iterator[pa.RecordBatch]]:
    """The function that makes Arrow batches of a table's entries."""
    schema = schema_of(table)

    def batches(entries: list[Entry], *, stream: str) -> Iterator[pa.RecordBatch]:
        """Halves the list until what cannot be read stands alone."""
        try:
            rows = [{**row, **placed(entry, stream=stream)} for entry in entries for row in rows_of(entry, stream)]
            yield _batch(rows, schema=schema)
        except UNREADABLE as error:
            if len(entries) == 1:
                yield _batch([unreadable(entries[0], stream=stream, error=error)], schema=schema)
                return
            middle = len(entries) // 2
            yield from batches(entries[:middle], stream=stream)
            yield from batches(entries[middle:], stream=stream)

    return batches


def _batch(rows: list[Row], *, schema: pa.Schema) -> pa.RecordBatch:
    columns = [pa.array([row.get(name) for row in rows], schema.field(name).type) for name in schema.names]
    return pa.record_batch(columns, schema=schema)


def unreadable(entry: Entry, *, stream: str, error: Exception) -> Row:
    """A row that keeps the entry whole; whose it is, where that can be read."""
    known = {name: text_of(entry.fields.get(name.encode())) for name in ("tenant_id", "source", "record")}
    return {**known, **placed(entry, stream=stream), "raw_entry": raw_entry(entry.fields), "decode_error": error_text(error)}


def placed(entry: Entry, *, stream: str) -> Row:
    """Where a row comes from, which is known of every entry."""
    return {
        "stream": stream,
        "entry_id": entry.id,
        "incarnation": text_of(entry.fields.get(b"incarnation")),
        "sequence": number_of(entry.fields.get(b"sequence")),
        "recorded_at": _time(time_of(entry)),
    }


def _time(epoch_ms: float) -> int:
    """Microseconds, as Arrow takes a time."""
    if not 0 <= epoch_ms <= LATEST_MS:
        raise ValueError(f"{epoch_ms} is no time in ms between 1970 and 9999")
    return int(epoch_ms * 1000)


def _texts(fields: Fields, *names: str) -> Row:
    return {name: fields.get(name.encode(), b"").decode() for name in names}


def _named(stream: str, entry_id: str) -> str:
    """As operators name it: shard and entry id."""
    return f"{stream.partition(':')[0]}-{entry_id}"


def _decision(fields: Fields) -> Row:
    return {"state": fields[b"state"].decode(), "decided_by": fields[b"by"].decode(), "because": fields.get(b"because", b"").decode()}


def letter_rows(entry: Entry, stream: str) -> list[Row]:
    """A dead letter, or a decision about one. Of a letter whose entry is no event the raw entry is kept beside what the letter says."""
    fields = entry.fields
    if fields[b"record"] == b"state":
        about = {"record": "state", "letter_id": _named(stream, fields[b"of"].decode()), "group_name": fields[b"group"].decode()}
        return [{**about, **_decision(fields)}]
    row = {
        "record": fields[b"record"].decode(),
        "letter_id": _named(stream, entry.id),
        "group_name": fields[b"group"].decode(),
        **_texts(fields, "processor", "reason", "error", "traceback", "first_error", "first_traceback", "from_entry"),
        "from_stream": fields.get(b"from", b"").decode(),
        "attempts": int(fields.get(b"attempts", b"0")),
        "dead_at": _time(int(fields.get(b"dead_at", b"0"))),
    }
    return [{**row, **_event_of(fields)}]


def _event_of(fields: Fields) -> Row:
    entry = {name.removeprefix(b"kept:"): value for name, value in fields.items() if name.decode("latin-1") not in OWN_FIELDS}
    try:
        event = decode(entry)
    except MalformedEntry as error:
        known = {name: text_of(entry.get(name.encode())) for name in ("tenant_id", "source")}
        return {"event_id": text_of(entry.get(b"id")), **known, "raw_entry": raw_entry(entry), "decode_error": error_text(error)}
    return {
        "event_id": event.id,
        **{name: getattr(event, name) for name in ("tenant_id", "source", "event_type", "delivery_id", "body_sha256")},
        "received_at": _time(to_epoch_ms(event.timestamp)),
        "body": event.payload,
    }


def outcome_rows(entry: Entry, stream: str) -> list[Row]:  # noqa: ARG001 - as others
    """One row for each delivery that the entry settled, or one for an alias."""
    if (alias := alias_of(entry.fields)) is not None:
        return [{"kind": "alias", "place": 1, **alias._asdict()}]
    from_stream = entry.fields.get(b"stream", b"").decode()
    return [
        {
            "kind": "outcome",
            "place": place,
            "event_id": _text(outcome.ran.event_id),
            "group_name": outcome.group,
            "consumer": outcome.consumer,
            "processor": _text(outcome.ran.processor),
            "attempt": _small(outcome.ran.attempt),
            "step": _text(outcome.step),
            "started_at": _time(outcome.ran.started_at_ms),
            "duration_ms": float(outcome.ran.duration_ms),
            "from_stream": from_stream,
        }
        for place, outcome in enumerate(unpack(entry.fields), start=1)
    ]


def _text(value: object) -> str:
    """What JSON may hold in its place is refused here, so that rows can be counted before Arrow sees them."""
    if not isinstance(value, str):
        raise TypeError(f"{value!r} is no text")
    return value


def _small(value: int) -> int:
    if not 0 <= value < 1 << 31:
        raise ValueError(f"{value!r} is no number of attempts")
    return value


def outcomes_in(entry: Entry) -> int:
    """How many rows `outcome_rows` makes of it, or the one that says why it cannot."""
    try:
        return len(outcome_rows(entry, ""))
    except UNREADABLE:
        return 1


def request_rows(entry: Entry, stream: str) -> list[Row]:
    """A refused request that was kept aside, or a decision about one."""
    fields = entry.fields
    if fields[b"record"] == b"state":
        about = {"record": "state", "request_id": _named(stream, fields[b"of"].decode()), "event_id": fields.get(b"event_id", b"").decode()}
        return [{**about, **_texts(fields, "tenant_id", "source"), **_decision(fields)}]
    row = {
        "record": fields[b"record"].decode(),
        "request_id": _named(stream, entry.id),
        "event_id": fields[b"id"].decode(),
        **_texts(fields, "tenant_id", "source", "code", "reason", "remote_address", "query"),
        "received_at": _time(int(fields[b"received_at"])),
        "headers": list(orjson.loads(fields[b"headers"]).items()),
        **{name: orjson.loads(fields.get(name.encode(), b"[]")) for name in LISTS},
        "body": fields[b"body"],
    }
    return [row]
