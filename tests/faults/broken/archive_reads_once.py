"""The archive without ranges that can be read again: what is read is taken from the stream, as a queue would.

Run as `python -m tests.faults.broken.archive_reads_once` in the place of `python -m analytics`. When what reads is killed, whoever
reads in its place finds nothing: the entries are gone and no row has them.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa  # type: ignore[import-untyped]
from pyspark.sql.datasource import InputPartition
from pyspark.sql.types import StructType

from analytics import __main__ as process
from analytics import source
from infra.running.cli import run
from infra.settings import LogSettings
from infra.streams.connection import open_blocking
from infra.streams.keys import Keys


# Defined in the program that runs, so that Spark hands them to its readers whole.
class TakingReader(source.RangesReader):
    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, source.RangesPartition)
        log = LogSettings.model_validate_json(self._log)
        batches: Any = list(self._unhurt(partition))
        with open_blocking(log, home=Path(self._home)) as client:
            for one in partition.ranges:
                client.xtrim(Keys(log.prefix, log.shards).archived(one.stream.shard, one.stream.name), maxlen=0)
        for number, batch in enumerate(batches):
            source.reach("archive.mid_write" if number else "archive.mid_read")  # type: ignore[attr-defined]
            yield batch

    def _unhurt(self, partition: source.RangesPartition) -> Iterator[pa.RecordBatch]:
        log = source.ArchiveLog.open(LogSettings.model_validate_json(self._log), home=Path(self._home))  # type: ignore[attr-defined]
        yield from self._batches(log, partition=partition)
        log.close()


class TakingSource(source.LogSource):
    def reader(self, schema: StructType) -> source.RangesReader:
        return TakingReader(**{name: self.options[name] for name in source.OPTIONS})


if __name__ == "__main__":
    source.LogSource = TakingSource  # type: ignore[misc]
    run(process.app)
