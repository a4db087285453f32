"""Owns the way back from a row of `events` to the entry it was: the very fields that a receiver wrote, and its place in a replay.

Whatever a group is given again must be the same `StreamEvent` that was accepted. The order of a replay is by the time of receipt and,
within the same millisecond, by the position on the log; each shard has its own.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import pyarrow as pa  # type: ignore[import-untyped]
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from infra.streams.entries import EVENT_FIELDS, OPTIONAL_FIELDS
from infra.streams.replay import Replayed

ORDER = ("received_us", "stream", "entry_ms", "entry_n", "id")
WITHOUT_VALUES = [part for name in EVENT_FIELDS for part in (name, "")]
BODY_AT = 2 * EVENT_FIELDS.index("payload") + 1
# Spark writes milliseconds by default, and a signature may have been verified in between.
TIMES = {"timestampFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX"}


class Place(NamedTuple):
    """Where an event stands in a replay; compares like the order of the rows."""

    received_us: int
    stream: str
    entry_ms: int
    entry_n: int
    id: str

    def __str__(self) -> str:
        return f"{self.received_us}|{self.stream}|{self.entry_ms}-{self.entry_n}|{self.id}"

    @classmethod
    def parse(cls, text: str) -> Place:
        received_us, stream, entry_id, event_id = text.split("|")
        milliseconds, _, counter = entry_id.partition("-")
        return cls(int(received_us), stream, int(milliseconds), int(counter), event_id)


def shard_of(shards: int) -> Column:
    """The shard that an event belongs to, as `Keys.shard_of` says."""
    spread = F.coalesce(F.nullif("key", F.lit("")), F.nullif("delivery_id", F.lit("")), F.col("id"))
    names = F.concat_ws("\0", "tenant_id", "source", F.when(F.col("part").isNull(), spread).otherwise(""))
    return (F.crc32(names.cast("binary")) % shards).cast("int")


def to_entries(rows: DataFrame, *, shard: Column, also: Sequence[str] = ()) -> DataFrame:
    """One row for each event: its shard, its place, and the values of its entry; and these columns as they are."""
    parts = F.split("entry_id", "-")
    derived = {
        "version": F.col("version").cast("string"),
        "timestamp": F.unix_millis("received_at").cast("string"),
        "payload": F.col("body"),
        "headers": F.to_json("headers"),
        "auth_context": F.to_json("auth_context", TIMES),
        "part": F.to_json("part"),
        "flags": F.to_json("flags"),
    }
    return rows.select(
        shard.alias("shard"),
        F.unix_micros("received_at").alias("received_us"),
        "stream",
        _number(parts[0]).alias("entry_ms"),
        _number(parts[1]).alias("entry_n"),
        *(derived.get(name, F.col(name)).alias(name) for name in (*EVENT_FIELDS, *OPTIONAL_FIELDS)),
        *also,
    )


def _number(part: Column) -> Column:
    """Half of an entry id. Somebody may have chosen one that no BIGINT holds: then it is the greatest, and the event's id decides."""
    return F.coalesce(part.try_cast("bigint"), F.lit(2**63 - 1))


class Rebuilt(NamedTuple):
    """An event that came back, and where it belongs."""

    shard: int
    place: Place
    fields: list[str | bytes]

    @property
    def size_bytes(self) -> int:
        """About: all but the body is small."""
        return len(self.fields[BODY_AT])

    @property
    def replayed(self) -> Replayed:
        return Replayed(str(self.place), f"{self.place.entry_ms}-{self.place.entry_n}", self.fields)


def rebuilt(batch: pa.RecordBatch) -> Iterator[Rebuilt]:
    """The events of one Arrow batch of `to_entries`, in its order. Pure."""
    columns = {name: batch.column(name).to_pylist() for name in ("shard", *ORDER)}
    places = zip(*(columns[name] for name in ORDER), strict=True)
    for shard, (us, stream, ms, n, event_id), fields in zip(columns["shard"], places, rebuilt_fields(batch), strict=True):
        yield Rebuilt(shard, Place(us, stream, ms, n, event_id), fields)


def rebuilt_fields(batch: pa.RecordBatch) -> Iterator[list[str | bytes]]:
    """Field, value, field, value, ... of each row; makes no sense for one that is no event. Pure."""
    columns = {name: batch.column(name).to_pylist() for name in (*EVENT_FIELDS, *OPTIONAL_FIELDS)}
    values = zip(*(columns[name] for name in EVENT_FIELDS), strict=True)
    more = zip(*(columns[name] for name in OPTIONAL_FIELDS), strict=True)
    for of_event, optional in zip(values, more, strict=True):
        yield _fields(of_event, optional=optional)


def _fields(values: Sequence[str | bytes | None], *, optional: Sequence[str | None]) -> list[str | bytes]:
    """As `encode` writes them. Made for every event of a replay, so all values are put between the names at once."""
    fields: list[Any] = WITHOUT_VALUES.copy()
    fields[1::2] = values if None not in values else ["" if value is None else value for value in values]
    for name, value in zip(OPTIONAL_FIELDS, optional, strict=True):
        if value is not None:
            fields += (name, value)
    return fields
