"""Owns the Spark job of a replay: each shard's events, in order, from the table onto the group's stream, as fast as the group takes them.

A task is one shard. It sorts, and hands what it reads to the log as it comes, so that memory does not grow with the history; a day is
sorted at a time, and so is the disk's share. Whoever dies, the log knows how far each shard has come.
"""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

import pyarrow as pa  # type: ignore[import-untyped]
from pyspark.sql import DataFrame, SparkSession

from analytics.rebuilding import ORDER, Place, Rebuilt, rebuilt, shard_of, to_entries
from infra.failpoints import reach
from infra.settings import LogSettings
from infra.streams.replay import Handed, Limits, Progress, Replayed, ReplayStream
from schemas.errors import NotFound, StreamUnavailable

T = TypeVar("T")

AT_ONCE = 200
AT_ONCE_BYTES = 1024 * 1024
"""One call of the script keeps the server for some milliseconds."""
FULL_PAUSE_S = 0.02
LONGEST_PAUSE_S = 1.0
LOST_PAUSE_S = 0.5
RESULT = "shard INT, handed BIGINT, said STRING"


@dataclass(frozen=True, slots=True)
class Task:
    """What a task needs to know; Spark pickles it."""

    log: str
    home: str
    group: str
    replay: str
    limits: Limits = field(default_factory=Limits)
    rates: dict[int, float] = field(default_factory=dict)
    """Events per second in each shard; none where there is no limit."""
    patience_s: float = 300

    def open(self) -> ReplayStream:
        log = LogSettings.model_validate_json(self.log)
        return ReplayStream.open(log, home=Path(self.home), group=self.group, replay=self.replay, limits=self.limits)


def hand_all(rows: DataFrame, *, task: Task, shards: int) -> list[str]:
    """Hands the rows to the group; returns what kept a shard from having them all. Blocks for as long as the group takes."""
    keep_batches_small(rows.sparkSession)
    entries = to_entries(rows, shard=shard_of(shards)).repartitionById(shards, "shard").sortWithinPartitions(*ORDER)
    results = entries.mapInArrow(functools.partial(hand_batches, task=task), RESULT).collect()
    return sorted({row.said for row in results if row.said})


def keep_batches_small(spark: SparkSession) -> None:
    """What goes to a Python process at once: bodies may be large, and a whole batch is in memory."""
    spark.conf.set("spark.sql.execution.arrow.maxRecordsPerBatch", "2000")
    spark.conf.set("spark.sql.execution.arrow.maxBytesPerBatch", str(8 * 1024 * 1024))


def hand_batches(batches: Iterator[pa.RecordBatch], *, task: Task) -> Iterator[pa.RecordBatch]:
    """Runs in a process of Spark's: one shard, or several after each other."""
    handed, said = dict[int, int](), ""
    try:
        with closing(task.open()) as stream:
            for writer in hand_events((event for batch in batches for event in rebuilt(batch)), stream=stream, task=task):
                handed[writer.shard] = writer.handed
    except (StreamUnavailable, NotFound) as error:
        said = str(error)
    yield pa.RecordBatch.from_pydict(
        {"shard": list(handed), "handed": list(handed.values()), "said": [""] * len(handed)}, schema=_RESULT_SCHEMA
    )
    if said:
        yield pa.RecordBatch.from_pydict({"shard": [-1], "handed": [0], "said": [said]}, schema=_RESULT_SCHEMA)


_RESULT_SCHEMA = pa.schema([("shard", pa.int32()), ("handed", pa.int64()), ("said", pa.string())])


def hand_events(events: Iterable[Rebuilt], *, stream: ReplayStream, task: Task) -> Iterator[ShardWriter]:
    """Yields the writer of each shard when it is done."""
    writer: ShardWriter | None = None
    for event in events:
        if writer is None or writer.shard != event.shard:
            if writer is not None:
                writer.flush()
                yield writer
            writer = ShardWriter(stream, shard=event.shard, pace=Pace(task.rates.get(event.shard)), patience_s=task.patience_s)
        writer.put(event)
    if writer is not None:
        writer.flush()
        yield writer


class Pace:
    """At most so many events per second, without a burst after a pause."""

    def __init__(self, rate: float | None, *, now: Callable[[], float] = time.monotonic) -> None:
        self.at_once = AT_ONCE if rate is None else max(1, min(AT_ONCE, int(rate / 10)))
        self._rate = rate
        self._now = now
        self._next = now()

    def wait_s(self, count: int) -> float:
        """How long to wait before so many events are handed; they count as handed then."""
        if self._rate is None:
            return 0.0
        now = self._now()
        begins = max(self._next, now)
        self._next = begins + count / self._rate
        return begins - now


class ShardWriter:
    """Hands the events of one shard to the log, waits where there is no room, and goes on where the log says that it has come to.

    Raises StreamUnavailable when the log is away for too long, NotFound when group or replay are no more.
    """

    def __init__(self, stream: ReplayStream, *, shard: int, pace: Pace, patience_s: float) -> None:
        self.shard = shard
        self.handed = 0
        self._stream = stream
        self._pace = pace
        self._patience_s = patience_s
        self._waiting: list[tuple[Place, Replayed]] = []
        self._size = 0
        self._progress = Progress()
        self._known: Place | None = None
        self._come_to(self._patiently(lambda: self._stream.progress(self.shard)))

    def put(self, event: Rebuilt) -> None:
        if not self._is_left(event.place):
            return
        self._waiting.append((event.place, event.replayed))
        self._size += event.size_bytes
        if len(self._waiting) >= self._pace.at_once or self._size >= AT_ONCE_BYTES:
            self.flush()

    def flush(self) -> None:
        """Returns when everything that was put is on the log."""
        if self._waiting:
            time.sleep(self._pace.wait_s(len(self._waiting)))
        pause_s = FULL_PAUSE_S
        while self._waiting:
            reach("replay.before_append")
            handed = self._patiently(self._hand)
            reach("replay.after_append")
            self.handed += handed.appended
            self._come_to(handed.progress if handed.status != "gone" else None)
            if handed.status != "full":
                pause_s = FULL_PAUSE_S
                continue
            # Each call brings all that waits, so a group that settles nothing is asked less and less often.
            time.sleep(pause_s)
            pause_s = min(2 * pause_s, LONGEST_PAUSE_S)
        self._size = 0

    def _hand(self) -> Handed:
        return self._stream.hand(self.shard, events=[event for _, event in self._waiting], since=self._progress)

    def _come_to(self, progress: Progress | None) -> None:
        if progress is None:
            raise NotFound("the group was removed meanwhile, or the replay cancelled: nothing more is handed")
        self._progress = progress
        self._known = Place.parse(progress.place) if progress.place and not progress.is_done else None
        # Gone is also what another one has handed meanwhile, or an earlier call whose reply never came.
        self._waiting = [(place, event) for place, event in self._waiting if self._is_left(place)]

    def _is_left(self, place: Place) -> bool:
        return not self._progress.is_done and (self._known is None or place > self._known)

    def _patiently(self, call: Callable[[], T]) -> T:
        """A log that does not answer is asked again for a while; raises StreamUnavailable after that."""
        until = time.monotonic() + self._patience_s
        while True:
            try:
                return call()
            except StreamUnavailable:
                if time.monotonic() >= until:
                    raise
                time.sleep(LOST_PAUSE_S)
