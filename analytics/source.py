"""Owns reading ranges of the log into Spark: a Python data source whose partitions are fixed ranges of entries.

Spark pickles it and runs it in processes of its own, so it holds texts only and opens the log where it reads.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain
from pathlib import Path

import pyarrow as pa  # type: ignore[import-untyped]
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from analytics import plan
from analytics.decoders import DECODERS, Decoder
from analytics.plan import Range
from analytics.samples import sample_entries
from infra.failpoints import reach
from infra.settings import LogSettings
from infra.streams.entries import END, LOG_FIELDS, Entry
from infra.streams.ranges import ArchiveLog
from schemas.errors import ArchiveError

NAME = "hooklake_log"
OPTIONS = ("table", "ranges", "log", "home", "samples")
# Raised in a reader and found again in the text of whatever Spark makes of it.
RECHECK_NEEDED = "hooklake: a range that was to be appended blindly has entries that may be archived already"

USUAL_LENGTH = END + 2 * len(LOG_FIELDS)
# Spark holds a whole Arrow batch, several times over, while it makes rows of it.
PORTION_ENTRIES = 2000
PORTION_BYTES = 8 * 1024 * 1024


def read_ranges(spark: SparkSession, *, table: str, groups: list[list[Range]], log: LogSettings, home: Path, samples: int = 0) -> DataFrame:
    """The entries of the ranges as they are on the log, one task for each group; nothing is read before an action.

    With `samples` each task makes up so many more (`warming.py`).
    """
    spark.dataSource.register(LogSource)
    options = {"table": table, "ranges": plan.to_json(groups), "log": log.model_dump_json(), "home": str(home), "samples": str(samples)}
    return spark.read.format(NAME).schema(DECODERS[table].ddl).options(**options).load()


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
        return DECODERS[self.options["table"]].ddl

    def reader(self, schema: StructType) -> RangesReader:  # noqa: ARG002 - Spark's signature
        return RangesReader(**{name: self.options[name] for name in OPTIONS})


class RangesReader(DataSourceReader):
    """Reads its partition's ranges; an entry that cannot be read becomes a row that says so, and never fails the batch."""

    def __init__(self, *, table: str, ranges: str, log: str, home: str, samples: str) -> None:
        self._table = table
        self._ranges = ranges
        self._log = log
        self._home = home
        self._samples = int(samples)

    def partitions(self) -> list[InputPartition]:
        return [RangesPartition(group) for group in plan.from_json(self._ranges)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, RangesPartition)
        log = ArchiveLog.open(LogSettings.model_validate_json(self._log), home=Path(self._home))
        try:
            for number, batch in enumerate(self._batches(log, partition=partition)):
                # Asked for more, so Spark has taken the rows before this batch and is writing them.
                reach("archive.mid_write" if number else "archive.mid_read")
                yield batch
        finally:
            log.close()

    def _batches(self, log: ArchiveLog, *, partition: RangesPartition) -> Iterator[pa.RecordBatch]:
        decoder = DECODERS[self._table]
        if self._samples:
            yield from decoder.batches(sample_entries(self._samples), stream=NAME)
        for one in partition.ranges:
            yield from read_range(log, one, decoder=decoder)


def read_range(log: ArchiveLog, one: Range, *, decoder: Decoder) -> Iterator[pa.RecordBatch]:
    incarnation = one.to.incarnation.encode()
    for entries in portions(chain.from_iterable(log.read(one.stream, after=one.after.entry_id, to=one.to.entry_id))):
        if not one.recheck and any(may_be_archived(entry, incarnation=incarnation) for entry in entries):
            raise ArchiveError(RECHECK_NEEDED)
        yield from decoder.batches(entries, stream=str(one.stream))


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


def may_be_archived(entry: Entry, *, incarnation: bytes) -> bool:
    """True for an entry of a past incarnation, and for one whose appender was not sure."""
    flat = entry.flat
    if len(flat) == USUAL_LENGTH and flat[END] == b"incarnation" and flat[END + 4] == b"recheck":  # nearly always
        return flat[END + 5] == b"1" or flat[END + 1] != incarnation
    return entry.fields.get(b"recheck") == b"1" or entry.fields.get(b"incarnation") != incarnation
