"""Owns the way back from a row of `events` to the entry it was: the very fields that a receiver wrote, and its place in a replay.

Whatever a group is given again must be the same `StreamEvent` that was accepted. The order of a replay is by the time of receipt and,
within the same millisecond, by the position on the log; each shard has its own.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import pyarrow as pa  # type: ignore[import-untyped]
import pyarrow.compute as pc  # type: ignore[import-untyped]
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from infra.streams.entries import EVENT_FIELDS, OPTIONAL_FIELDS
from infra.streams.replay import Replayed
from infra.streams.scripts import Argument

ORDER = ("received_us", "stream", "entry_ms", "entry_n", "id")
WITHOUT_VALUES: list[Argument] = [part for name in EVENT_FIELDS for part in (name, "")]
NOTHING_MORE = (None,) * len(OPTIONAL_FIELDS)
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
    packed: bytes
    further: Sequence[Argument]

    @property
    def size_bytes(self) -> int:
        return len(self.packed)

    @property
    def replayed(self) -> Replayed:
        return Replayed(str(self.place), f"{self.place.entry_ms}-{self.place.entry_n}", self.packed, self.further)


def rebuilt(batch: pa.RecordBatch) -> Iterator[Rebuilt]:
    """The events of one Arrow batch of `to_entries`, in its order. Pure."""
    places = map(Place, *(_values(batch.column(name)) for name in ORDER))
    return map(Rebuilt, _values(batch.column("shard")), places, _values(_packed(batch)), _further(batch))


def rebuilt_fields(batch: pa.RecordBatch) -> Iterator[list[Argument]]:
    """Field, value, field, value, ... of each row, as `encode` writes them; makes no sense for one that is no event. Pure."""
    values = zip(*(_values(_texts(batch, name)) for name in EVENT_FIELDS), strict=True)
    for of_event, further in zip(values, _further(batch), strict=True):
        fields = WITHOUT_VALUES.copy()
        fields[1::2] = of_event
        yield [*fields, *further]


def _packed(batch: pa.RecordBatch) -> pa.Array:
    """The values that every event has, as `infra.streams.replay.packed` writes them: all rows at once, none of them a Python object."""
    columns = [_texts(batch, name) for name in EVENT_FIELDS]
    return pc.binary_join_element_wise(*(part for column in columns for part in (_lengths(column), column)), b"")


def _lengths(texts: pa.Array) -> pa.Array:
    """Of each its length, in the four bytes that stand before it."""
    lengths = pc.binary_length(texts).to_numpy().astype("<u4").tobytes()
    return pa.Array.from_buffers(pa.binary(4), len(texts), [None, pa.py_buffer(lengths)]).cast(pa.binary())


def _further(batch: pa.RecordBatch) -> Iterator[Sequence[Argument]]:
    """Field, value, ... of what few events have."""
    optional = zip(*(_values(batch.column(name)) for name in OPTIONAL_FIELDS), strict=True)
    return (() if values == NOTHING_MORE else _named(values) for values in optional)


def _named(optional: Sequence[str | None]) -> list[Argument]:
    return [part for name, value in zip(OPTIONAL_FIELDS, optional, strict=True) if value is not None for part in (name, value)]


def _texts(batch: pa.RecordBatch, name: str) -> pa.Array:
    """As the bytes that they are, since nobody here looks into them; nothing where there is none."""
    return pc.fill_null(batch.column(name).cast(pa.binary()), b"")


def _values(column: pa.Array) -> list[Any]:
    """Of a column that has no numbers with gaps between them: by way of numpy, which takes a fraction of what `to_pylist` does."""
    found: list[Any] = column.to_numpy(zero_copy_only=False).tolist()
    return found
