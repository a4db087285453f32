"""Owns the refill: what groups are owed (`owed.py`) is given back to them from the table, by itself, beside the batches.

At most a thousand events wait for a group in a shard; more follow as it settles them. The script that appends them shortens what is
owed, so that a kill at any moment hands nothing twice and leaves nothing out. They are not marked as a replay: the group has never
settled them.
"""

from __future__ import annotations

import base64
import functools
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import reduce
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

import orjson
import pyarrow as pa  # type: ignore[import-untyped]
from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from analytics.giving_back import Archived, Portion, portions, steps
from analytics.handing import AT_ONCE, AT_ONCE_BYTES, keep_batches_small
from analytics.rebuilding import rebuilt_fields, to_entries
from infra.failpoints import reach
from infra.settings import LogSettings
from infra.streams.entries import LOG_FIELDS
from infra.streams.keys import EVENT_STREAMS
from infra.streams.owed import Owed, OwedRange, Step
from infra.streams.positions import id_order
from infra.streams.replay import Limits
from infra.streams.scripts import Argument
from infra.telemetry import Telemetry
from schemas.errors import StreamUnavailable

LIMITS = Limits(entries=1000, size_bytes=16 * 1024 * 1024)
RESULT = "shard INT, appended BIGINT, missing BIGINT, erased BIGINT, said STRING"
ALSO = ("entry_id", "incarnation", "sequence", "raw_entry")

Orders = Mapping[int, Sequence[Portion]]
"""What is to be given back in each shard."""


@dataclass(frozen=True, slots=True)
class Refill:
    """What one archive gives back; `step` is to be called again and again, and costs a few commands when nothing is owed."""

    dataframe: Callable[[], DataFrame]
    """The table as it is now."""
    owed: Owed
    log: LogSettings
    home: Path
    telemetry: Telemetry
    limits: Limits = LIMITS

    def step(self) -> int:
        """Gives back what there is room for; returns how many events. Raises nothing: the batches go on whatever is the matter."""
        try:
            given = {group: self._give_back(group, shards=shards) for group, shards in self.owed.creditors().items()}
        except (StreamUnavailable, PySparkException, Py4JError) as error:
            reason = str(error).strip().partition("\n")[0][:300]
            self.telemetry.log.warning("what is owed could not be given back, and will be", reason=reason)
            return 0
        return sum(given.values())

    def _give_back(self, group: str, *, shards: Sequence[int]) -> int:
        orders = {shard: portions(self.owed.items(group, shard=shard), room=room) for shard in shards if (room := self._room(group, shard))}
        if not any(orders.values()):
            return 0
        rows = self.dataframe()
        keep_batches_small(rows.sparkSession)
        entries = to_entries(rows.where(is_wanted(orders)), shard=_own_shard(), also=ALSO)
        sorted_entries = entries.repartitionById(self.log.shards, "shard").sortWithinPartitions(
            "shard", _stream_place(), "entry_ms", "entry_n"
        )
        task = Task(self.log.model_dump_json(), str(self.home), group, orders, self.limits)
        found = sorted_entries.mapInArrow(functools.partial(give_back_batches, task=task), RESULT).collect()
        for said in sorted({row.said for row in found if row.said}):
            raise StreamUnavailable(said)
        done = [GaveBack(row.appended, row.missing, row.erased) for row in found]
        for shard in orders.keys() - {row.shard for row in found}:  # The table has no row at all of what is owed there.
            done.append(give_back(self.owed, group=group, shard=shard, portions=orders[shard], rows=[], limits=self.limits))
        return self._told(group, GaveBack(*map(sum, zip(*done, strict=True))))

    def _told(self, group: str, done: GaveBack) -> int:
        if done.missing:
            self.telemetry.log.error("owed events have no row, and are lost to their group", group=group, events=done.missing)
        self.telemetry.log.info("owed events given back", group=group, events=done.appended, erased=done.erased)
        return done.appended

    def _room(self, group: str, shard: int) -> int:
        """None while half of what may wait does: a look at the table costs as much for one event as for a thousand."""
        waiting = self.owed.waiting(group, shard=shard)
        return self.limits.entries - waiting if 2 * waiting <= self.limits.entries else 0


def _own_shard() -> Column:
    return F.split("stream", ":")[0].cast("int")


def _stream_place() -> Column:
    """Streams in the order in which what is owed of them is given back."""
    name = F.split("stream", ":")[1]
    return F.array_position(F.array(*(F.lit(one) for one in EVENT_STREAMS)), name)


def is_wanted(orders: Orders) -> Column:
    """Whether a row is among what is to be given back."""
    conditions, numbers = [], defaultdict[tuple[str, str], list[int]](list)
    for stream, portion in ((f"{shard}:{portion.item.stream}", portion) for shard, chosen in orders.items() for portion in chosen):
        if isinstance(portion.item, OwedRange) or not portion.item.number:
            conditions.append(_is_in(portion, stream=stream))
        else:
            # Together: Spark cannot plan a condition for each of very many.
            numbers[stream, portion.item.incarnation].append(portion.item.number)
    for (stream, incarnation), of_entries in numbers.items():
        conditions.append((F.col("stream") == stream) & (F.col("incarnation") == incarnation) & F.col("sequence").isin(of_entries))
    return reduce(Column.__or__, conditions)


def _is_in(portion: Portion, *, stream: str) -> Column:
    item, is_here = portion.item, F.col("stream") == stream
    if isinstance(item, OwedRange):
        numbered = (F.col("incarnation") == item.incarnation) & F.col("sequence").between(item.first, portion.upto)
        foreign = F.col("sequence").isNull() & _is_above(item.after) & ~_is_above(item.to)
        return is_here & (numbered | foreign)
    return is_here & (F.col("entry_id") == item.entry_id)


def _is_above(entry_id: str) -> Column:
    parts, (milliseconds, counter) = F.split("entry_id", "-"), id_order(entry_id)
    own_ms, own_n = parts[0].cast("decimal(20,0)"), parts[1].cast("decimal(20,0)")
    return (own_ms > milliseconds) | ((own_ms == milliseconds) & (own_n > counter))


@dataclass(frozen=True, slots=True)
class Task:
    """What a task needs to know; Spark pickles it."""

    log: str
    home: str
    group: str
    orders: Orders
    limits: Limits


def give_back_batches(batches: Iterator[pa.RecordBatch], *, task: Task) -> Iterator[pa.RecordBatch]:
    """Runs in a process of Spark's: the rows of one shard."""
    rows = (row for batch in batches for row in archived(batch))
    first = next(rows, None)
    if first is None:
        return
    shard, done, said = first[0], GaveBack(), ""
    entries = (entry for _, entry in chain([first], rows))
    try:
        with closing(Owed.open(LogSettings.model_validate_json(task.log), home=Path(task.home))) as owed:
            done = give_back(owed, group=task.group, shard=shard, portions=task.orders[shard], rows=entries, limits=task.limits)
    except StreamUnavailable as error:
        said = str(error)
    facts = {"shard": shard, **done._asdict(), "said": said}
    yield pa.RecordBatch.from_pylist([facts], schema=_RESULT_SCHEMA)


_RESULT_SCHEMA = pa.schema(
    [("shard", pa.int32()), *((name, pa.int64()) for name in ("appended", "missing", "erased")), ("said", pa.string())]
)


class GaveBack(NamedTuple):
    """How many events were appended; how many have no row, and are lost to the group; how many have none since they were erased."""

    appended: int = 0
    missing: int = 0
    erased: int = 0


def give_back(owed: Owed, *, group: str, shard: int, portions: Sequence[Portion], rows: Iterable[Archived], limits: Limits) -> GaveBack:
    """Makes the steps until there is no room, or something has changed."""
    done = GaveBack()
    for call in in_calls(steps(portions, rows, erased=functools.cache(functools.partial(owed.erased, shard)))):
        reach("refill.before_append")
        given = owed.give_back(group, shard=shard, steps=call, limits=limits)
        reach("refill.after_append")
        lost = sum(int(step.missing.rpartition("=")[2]) for step in call[: given.steps] if step.missing)
        erased = sum(step.less for step in call[: given.steps] if not step.missing and not step.fields)
        done = GaveBack(done.appended + given.appended, done.missing + lost, done.erased + erased)
        if given.steps < len(call):
            break
    return done


def in_calls(made: Iterable[Step]) -> Iterator[list[Step]]:
    """The steps in lists that each are one call of the script. Pure."""
    call: list[Step] = []
    size = 0
    for step in made:
        call.append(step)
        size += sum(len(part) for part in step.fields if not isinstance(part, int))
        if len(call) >= AT_ONCE or size >= AT_ONCE_BYTES:
            yield call
            call, size = [], 0
    if call:
        yield call


def archived(batch: pa.RecordBatch) -> Iterator[tuple[int, Archived]]:
    """The rows of one Arrow batch with their shard. Pure."""
    columns: dict[str, list[Any]] = {name: batch.column(name).to_pylist() for name in ("shard", "stream", *ALSO)}
    for shard, stream, entry_id, incarnation, number, raw, fields in zip(*columns.values(), rebuilt_fields(batch), strict=True):
        name = stream.partition(":")[2]
        yield shard, Archived(name, entry_id, incarnation or "", number or 0, raw_fields(raw) if raw is not None else fields)


def raw_fields(raw: bytes) -> list[Argument]:
    """The fields of an entry that is no event, but for those of the log: the group makes of them what it would have made. Pure."""
    found: dict[str, str] = orjson.loads(raw)
    return [part for name, value in found.items() if name not in LOG_FIELDS for part in (name, base64.b64decode(value))]
