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
from infra.streams.scripts import Argument

ORDER = ("received_us", "stream", "entry_ms", "entry_n", "id")
WITHOUT_VALUES: list[Argument] = [part for name in EVENT_FIELDS for part in (name, "")]
NOTHING_MORE = (None,) * len(OPTIONAL_FIELDS)
BODY_AT = EVENT_FIELDS.index("payload")
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
    values: Sequence[bytes]
    further: Sequence[Argument]

    @property
    def size_bytes(self) -> int:
        """About: all but the body is small."""
        return len(self.values[BODY_AT])

    @property
    def replayed(self) -> Replayed:
        return Replayed(str(self.place), f"{self.place.entry_ms}-{self.place.entry_n}", self.values, self.further)


def rebuilt(batch: pa.RecordBatch) -> Iterator[Rebuilt]:
    """The events of one Arrow batch of `to_entries`, in its order. Pure."""
    places = map(Place, *(_values(batch.column(name)) for name in ORDER))
    for shard, place, (values, further) in zip(_values(batch.column("shard")), places, _entries(batch), strict=True):
        yield Rebuilt(shard, place, values, further)


def rebuilt_fields(batch: pa.RecordBatch) -> Iterator[list[Argument]]:
    """Field, value, field, value, ... of each row, as `encode` writes them; makes no sense for one that is no event. Pure."""
    for values, further in _entries(batch):
        fields = WITHOUT_VALUES.copy()
        fields[1::2] = values
        yield [*fields, *further]


def _entries(batch: pa.RecordBatch) -> Iterator[tuple[Sequence[bytes], Sequence[Argument]]]:
    """Of each row the values that every event has, and field, value, ... of the others."""
    values = zip(*(_texts(batch, name) for name in EVENT_FIELDS), strict=True)
    more = zip(*(_texts(batch, name) for name in OPTIONAL_FIELDS), strict=True)
    for of_event, optional in zip(values, more, strict=True):
        yield (
            of_event if None not in of_event else [value or b"" for value in of_event],
            () if optional == NOTHING_MORE else _further(optional),
        )


def _further(optional: Sequence[bytes | None]) -> list[Argument]:
    return [part for name, value in zip(OPTIONAL_FIELDS, optional, strict=True) if value is not None for part in (name, value)]


def _texts(batch: pa.RecordBatch, name: str) -> list[Any]:
    """As the bytes that they are: nobody here looks into them."""
    return _values(batch.column(name).cast(pa.binary()))


def _values(column: pa.Array) -> list[Any]:
    """Of a column that has no numbers with gaps between them: by way of numpy, which takes a fraction of what `to_pylist` does."""
    found: list[Any] = column.to_numpy(zero_copy_only=False).tolist()
    return found
