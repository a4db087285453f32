"""Owns how entries of the event streams become rows of `events`, as Arrow knows them. Pure.

An entry that is no event becomes a row that says so, and never fails the batch.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import orjson
import pyarrow as pa  # type: ignore[import-untyped]

from analytics.raw_rows import LATEST_MS, error_text, number_of, raw_entry, text_of, time_of
from infra.streams.entries import EVENT_FIELDS, LOG_FIELDS, OPTIONAL_FIELDS, Entry, read_flags
from schemas.event import VERSION, AuthContext, Part

TEXTS = (
    "id", "tenant_id", "source", "event_type", "repository", "delivery_id", "key", "priority", "body_sha256", "content_type",
    "headers", "auth_context", "traceparent", "incarnation",
)  # fmt: skip

Columns = Mapping[str, Sequence[Any]]
USUAL = (*EVENT_FIELDS, *LOG_FIELDS)
IN_PLACE = [name.encode() for name in USUAL]
A_TEXT = {str}
# What the model's own method calls, without the method: it is called for every row.
validate_auth_context = AuthContext.__pydantic_validator__.validate_json

SCHEMA = pa.schema(
    [
        pa.field("stream", pa.string()),
        pa.field("entry_id", pa.string()),
        *(pa.field(name, pa.string()) for name in (*TEXTS, *OPTIONAL_FIELDS)),
        pa.field("version", pa.int32()),
        pa.field("timestamp", pa.int64()),
        pa.field("sequence", pa.int64()),
        pa.field("conflict", pa.bool_()),
        pa.field("body", pa.binary()),
        pa.field("raw_entry", pa.binary()),
        pa.field("decode_error", pa.string()),
    ]
)
SPARK_TYPES = {pa.string(): "STRING", pa.int32(): "INT", pa.int64(): "BIGINT", pa.bool_(): "BOOLEAN", pa.binary(): "BINARY"}
SPARK_SCHEMA = ", ".join(f"`{field.name}` {SPARK_TYPES[field.type]}" for field in SCHEMA)


def record_batches(entries: list[Entry], *, stream: str) -> Iterator[pa.RecordBatch]:
    """Column by column, which is many times faster than row by row; halves the list until what cannot be decoded stands alone."""
    try:
        yield decoded(entries, stream=stream)
    except (KeyError, ValueError, OverflowError, TypeError) as error:
        if len(entries) == 1:
            yield undecoded(entries[0], stream=stream, error=error)
            return
        middle = len(entries) // 2
        yield from record_batches(entries[:middle], stream=stream)
        yield from record_batches(entries[middle:], stream=stream)


def decoded(entries: list[Entry], *, stream: str) -> pa.RecordBatch:
    """Raises KeyError, ValueError, OverflowError or TypeError when one of the entries is no event."""
    found, count = columns_of(entries), len(entries)
    check(found)
    columns = {
        "stream": pa.array([stream] * count, pa.string()),
        "entry_id": pa.array([entry.id for entry in entries], pa.string()),
        # The cast checks that the bytes are UTF-8; Spark would replace what is not.
        **{name: pa.array(found[name], pa.binary()).cast(pa.string()) for name in (*TEXTS, *OPTIONAL_FIELDS)},
        "version": pa.array([VERSION] * count, pa.int32()),
        "timestamp": pa.array(list(map(int, found["timestamp"])), pa.int64()),
        "sequence": pa.array(list(map(int, found["sequence"])), pa.int64()),
        "conflict": pa.array([value == b"1" for value in found["conflict"]], pa.bool_()),
        "body": pa.array(found["payload"], pa.binary()),
        "raw_entry": pa.nulls(count, pa.binary()),
        "decode_error": pa.nulls(count, pa.string()),
    }
    return pa.record_batch([columns[name] for name in SCHEMA.names], schema=SCHEMA)


def columns_of(entries: list[Entry]) -> Columns:
    """The values of each field, in the order of the entries; raises KeyError. Nearly all entries have the same fields in the same order."""
    if all(entry.flat[::2] == IN_PLACE for entry in entries):
        values = zip(*(entry.flat[1::2] for entry in entries), strict=True)
        return {**dict.fromkeys(OPTIONAL_FIELDS, [None] * len(entries)), **dict(zip(USUAL, values, strict=True))}
    rows = [entry.fields for entry in entries]
    needed = {name: [row[name.encode()] for row in rows] for name in USUAL if name != "recheck"}
    return {**needed, **{name: [row.get(name.encode()) for row in rows] for name in OPTIONAL_FIELDS}}


def check(found: Columns) -> None:
    """What the column types do not say by themselves; raises ValueError."""
    for version in found["version"]:
        if int(version) != VERSION:
            raise ValueError(f"version {version!r} is not {VERSION}, which this release reads")
    for timestamp in found["timestamp"]:
        if not 0 <= int(timestamp) < LATEST_MS:
            raise ValueError(f"timestamp {timestamp!r} is no time between 1970 and 2100")
    for raw in found["headers"]:
        headers = orjson.loads(raw)
        if type(headers) is not dict or not set(map(type, headers.values())) <= A_TEXT:
            raise ValueError("headers are no object of texts")
    for raw in found["auth_context"]:
        validate_auth_context(raw)
    for raw in found["part"]:
        if raw is not None:
            Part.model_validate_json(raw)
    for raw in found["flags"]:
        if raw is not None:
            read_flags(raw)


def undecoded(entry: Entry, *, stream: str, error: Exception) -> pa.RecordBatch:
    """A row that keeps the entry whole; whose it is, where that can be read."""
    known = {name: text_of(entry.fields.get(name.encode())) for name in ("id", "tenant_id", "source", "incarnation")}
    row = {
        **dict.fromkeys(SCHEMA.names),
        **known,
        "stream": stream,
        "entry_id": entry.id,
        "sequence": number_of(entry.fields.get(b"sequence")),
        # The log's own time of the append: the partition must not depend on what cannot be read.
        "timestamp": time_of(entry),
        "conflict": False,
        "raw_entry": raw_entry(entry.fields),
        "decode_error": error_text(error),
    }
    return pa.RecordBatch.from_pylist([row], schema=SCHEMA)
