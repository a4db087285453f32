"""Owns reading ranges of the log into Spark: a Python data source whose partitions are fixed ranges of entries.

Spark pickles it and runs it in processes of its own, so it holds texts only and opens the log where it reads.
"""

from __future__ import annotations

import base64
from collections.abc import Iterable, Iterator
from itertools import chain
from pathlib import Path

import orjson
import pyarrow as pa  # type: ignore[import-untyped]
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from analytics import plan
from analytics.plan import Range
from infra.settings import LogSettings
from infra.streams.entries import OPTIONAL_FIELDS, Entry, Fields, read_flags
from infra.streams.positions import id_order
from infra.streams.ranges import ArchiveLog
from schemas.errors import ArchiveError
from schemas.event import VERSION, AuthContext, Part

NAME = "hooklake_log"
# Raised in a reader and found again in the text of whatever Spark makes of it.
RECHECK_NEEDED = "hooklake: a range that was to be appended blindly has entries that may be archived already"

TEXTS = (
    "id", "tenant_id", "source", "event_type", "repository", "delivery_id", "key", "priority", "body_sha256", "content_type",
    "headers", "auth_context", "traceparent", "incarnation",
)  # fmt: skip
# Spark holds a whole Arrow batch, several times over, while it makes rows of it.
PORTION_ENTRIES = 2000
PORTION_BYTES = 8 * 1024 * 1024
LATEST_MS = 4_102_444_800_000  # The year 2100: a date beyond it is a broken clock, and would be a partition of its own.

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


def read_ranges(spark: SparkSession, *, groups: list[list[Range]], log: LogSettings, home: Path) -> DataFrame:
    """The entries of the ranges as they are on the log, one task for each group; nothing is read before an action."""
    spark.dataSource.register(LogSource)
    options = {"ranges": plan.to_json(groups), "log": log.model_dump_json(), "home": str(home)}
    return spark.read.format(NAME).schema(SPARK_SCHEMA).options(**options).load()


class RangesPartition(InputPartition):
    """The ranges that one task reads."""

    def __init__(self, ranges: list[Range]) -> None:
        super().__init__(ranges)
        self.ranges = ranges


class LogSource(DataSource):
    """What Spark makes of the options."""

    @classmethod
    def name(cls) -> str:
        return NAME

    def schema(self) -> str:
        return SPARK_SCHEMA

    def reader(self, schema: StructType) -> RangesReader:  # noqa: ARG002 - Spark's signature
        return RangesReader(ranges=self.options["ranges"], log=self.options["log"], home=self.options["home"])


class RangesReader(DataSourceReader):
    """Reads its partition's ranges; an entry that is no event becomes a row that says so, and never fails the batch."""

    def __init__(self, *, ranges: str, log: str, home: str) -> None:
        self._ranges = ranges
        self._log = log
        self._home = home

    def partitions(self) -> list[InputPartition]:
        return [RangesPartition(group) for group in plan.from_json(self._ranges)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, RangesPartition)
        log = ArchiveLog.open(LogSettings.model_validate_json(self._log), home=Path(self._home))
        try:
            for one in partition.ranges:
                yield from read_range(log, one)
        finally:
            log.close()


def read_range(log: ArchiveLog, one: Range) -> Iterator[pa.RecordBatch]:
    for entries in portions(chain.from_iterable(log.read(one.stream, after=one.after.entry_id, to=one.to.entry_id))):
        if not one.recheck and any(may_be_archived(entry.fields, incarnation=one.to.incarnation) for entry in entries):
            raise ArchiveError(RECHECK_NEEDED)
        yield from record_batches(entries, stream=str(one.stream))


def portions(entries: Iterable[Entry]) -> Iterator[list[Entry]]:
    """The entries in lists that each make one Arrow batch: many small ones, or few large ones. Pure."""
    portion: list[Entry] = []
    weight = 0
    for entry in entries:
        if portion and (len(portion) == PORTION_ENTRIES or weight + entry.size_bytes > PORTION_BYTES):
            yield portion
            portion, weight = [], 0
        portion.append(entry)
        weight += entry.size_bytes
    if portion:
        yield portion


def may_be_archived(fields: Fields, *, incarnation: str) -> bool:
    """True for an entry of a past incarnation, and for one whose appender was not sure."""
    return fields.get(b"recheck") == b"1" or fields.get(b"incarnation") != incarnation.encode()


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
    rows = [entry.fields for entry in entries]
    check(rows)
    columns = {
        "stream": pa.array([stream] * len(rows), pa.string()),
        "entry_id": pa.array([entry.id for entry in entries], pa.string()),
        # The cast checks that the bytes are UTF-8; Spark would replace what is not.
        **{name: pa.array([row[name.encode()] for row in rows], pa.binary()).cast(pa.string()) for name in TEXTS},
        **{name: pa.array([row.get(name.encode()) for row in rows], pa.binary()).cast(pa.string()) for name in OPTIONAL_FIELDS},
        "version": pa.array([VERSION] * len(rows), pa.int32()),
        "timestamp": pa.array([int(row[b"timestamp"]) for row in rows], pa.int64()),
        "sequence": pa.array([int(row[b"sequence"]) for row in rows], pa.int64()),
        "conflict": pa.array([row[b"conflict"] == b"1" for row in rows], pa.bool_()),
        "body": pa.array([row[b"payload"] for row in rows], pa.binary()),
        "raw_entry": pa.nulls(len(rows), pa.binary()),
        "decode_error": pa.nulls(len(rows), pa.string()),
    }
    return pa.record_batch([columns[name] for name in SCHEMA.names], schema=SCHEMA)


def check(rows: list[Fields]) -> None:
    """What the column types do not say by themselves; raises ValueError or KeyError."""
    for row in rows:
        if int(row[b"version"]) != VERSION:
            raise ValueError(f"version {row[b'version']!r} is not {VERSION}, which this release reads")
        if not 0 <= int(row[b"timestamp"]) < LATEST_MS:
            raise ValueError(f"timestamp {row[b'timestamp']!r} is no time between 1970 and 2100")
        headers = orjson.loads(row[b"headers"])
        if not isinstance(headers, dict) or not all(isinstance(value, str) for value in headers.values()):
            raise ValueError("headers are no object of texts")
        AuthContext.model_validate_json(row[b"auth_context"])
        if b"part" in row:
            Part.model_validate_json(row[b"part"])
        if b"flags" in row:
            read_flags(row[b"flags"])


def undecoded(entry: Entry, *, stream: str, error: Exception) -> pa.RecordBatch:
    """A row that keeps the entry whole; whose it is, where that can be read."""
    known = {name: _text(entry.fields.get(name.encode())) for name in ("id", "tenant_id", "source", "incarnation")}
    row = {
        **dict.fromkeys(SCHEMA.names),
        **known,
        "stream": stream,
        "entry_id": entry.id,
        "sequence": _number(entry.fields.get(b"sequence")),
        # The log's own time of the append: the partition must not depend on what cannot be read. Somebody may have chosen an
        # entry id that is no time at all.
        "timestamp": min(id_order(entry.id)[0], LATEST_MS - 1),
        "conflict": False,
        "raw_entry": raw_entry(entry.fields),
        "decode_error": " ".join(f"{type(error).__name__}: {error}".split())[:500],
    }
    return pa.RecordBatch.from_pylist([row], schema=SCHEMA)


def raw_entry(fields: Fields) -> bytes:
    """A JSON object: field names to base64 texts of their values."""
    return orjson.dumps({name.decode("utf-8", "backslashreplace"): base64.b64encode(value).decode() for name, value in fields.items()})


def _text(value: bytes | None) -> str | None:
    try:
        return value.decode() if value is not None else None
    except UnicodeDecodeError:
        return None


def _number(value: bytes | None) -> int | None:
    return int(value) if value is not None and value.isdigit() and len(value) <= 18 else None
