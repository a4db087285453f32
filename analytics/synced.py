"""Owns a table on its disk: opened whole, and changed only by commits that are read back and synced before anybody believes them.

What fills a table (`commits.py`, `gold_commits.py`) says what its commits carry; how one is made safe is here, once.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

import orjson
from py4j.protocol import Py4JError, Py4JJavaError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from analytics.delta_log import DeltaLog, LogEntry
from analytics.opening import open_table
from analytics.settings import is_address
from analytics.tables import Table
from infra.failpoints import reach
from schemas.errors import TableUnavailable

C = TypeVar("C")

OF_A_TASK = re.compile(r"executor [\w-]+\): ")
"""Behind this stands what a task said."""


class SyncedTable(ABC):
    """A table and its newest version that is known to be on the disk."""

    def __init__(self, spark: SparkSession, *, table: Table, location: str) -> None:
        """Creates the table when it is missing; raises SchemaDrift, TableUnavailable, and whatever torn versions are a reason for."""
        self.table = table
        self.location = location
        self._spark = spark
        self._log = DeltaLog(spark, location=location)
        with as_unavailable(location, cannot="be opened"):
            if not is_address(location):
                self._set_aside_torn(Path(location))
            open_table(spark, table=table, location=location)
            newest = self._log.newest()
            self._log.sync(newest)
            self._log.sync_name()
            self._version = newest.version

    @abstractmethod
    def _set_aside_torn(self, table: Path) -> None:
        """Puts versions away that a power cut left in pieces."""

    @abstractmethod
    def _is_ours(self, entry: LogEntry) -> bool:
        """Whether a version was made by who fills the table, and says how far it has come."""

    def own_entry(self) -> LogEntry | None:
        """The newest of those; a compaction may lie on top of it."""
        newest = self._log.newest(at_least=self._version).version
        return next((entry for entry in self._log.downwards(start=newest) if self._is_ours(entry)), None)

    def told_at(self) -> int:
        """The version that says how far the table has come; whatever is removed from the table's log, it stays."""
        entry = self.own_entry()
        return entry.version if entry else 0

    def _catch_up(self) -> None:
        """Syncs what came since: a commit whose maker failed before he had, and what others did."""
        with as_unavailable(self.location, cannot="be read"):
            for entry in self._log.since(self._version):
                self._log.sync(entry)
                self._version = entry.version

    def dataframe(self) -> DataFrame:
        """The table as it is now."""
        return self._spark.read.format("delta").load(self.location)

    def _commit(self, work: Callable[[], object], *, read_back: Callable[[LogEntry], C], steps: str) -> C:
        """Lets `work` make one version, and returns, synced, what the table says of it. Raises TableUnavailable.

        `read_back` raises when that is not what was meant. `steps` is how the failpoints on the way are called.
        """
        with as_unavailable(self.location, cannot="be written"):
            work()
            reach(f"{steps}.before_read_back")
            entry = self._log.newest(at_least=self._version)
            committed = read_back(entry)
            reach(f"{steps}.before_sync")
            self._log.sync(entry)
        self._version = entry.version
        return committed


@contextmanager
def as_unavailable(location: str, *, cannot: str) -> Iterator[None]:
    """Whatever Spark or the disk says about a table inside is TableUnavailable, in one line."""
    try:
        yield
    except (PySparkException, Py4JError, OSError, orjson.JSONDecodeError) as error:
        raise TableUnavailable(f"{location} cannot {cannot}: {first_line(error)}") from error


def first_line(error: Exception) -> str:
    """What a person needs to know of it."""
    return (_root_cause(error) if isinstance(error, Py4JJavaError) else str(error)).strip().partition("\n")[0][:300]


def _root_cause(error: Py4JJavaError) -> str:
    """What went wrong in the JVM first: the error itself only says which call it was, and a job's only repeats that of a task."""
    cause = error.java_exception
    while cause.getCause() is not None:
        cause = cause.getCause()
    return OF_A_TASK.split(str(cause.toString()))[-1]
