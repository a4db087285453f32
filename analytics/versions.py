"""Owns how many old versions of a table can still be read: removes the log entries of those that nobody can ask for any more.

Delta looks through the whole directory of its log at every batch, and its own clean-up goes by days: a table that is filled once a
second would have hundreds of thousands of entries there. So entries beyond a number of versions go, too. What goes is everything
below a checkpoint, which has the whole state; so the oldest version that can be read is always that of a checkpoint.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from analytics.delta_log import sync_all

# `00000000000000000050.json`, `....checkpoint.parquet`, `....crc`, and Hadoop's checksums `.00000000000000000050.json.crc`.
OF_VERSION = re.compile(r"\.?(\d{20})\..+")
CHECKPOINT = re.compile(r"(\d{20})\.checkpoint\.parquet")
ENTRY = re.compile(r"(\d{20})\.json")


@dataclass(frozen=True, slots=True)
class History:
    """What a table's log holds: when each version was made, and which have a checkpoint."""

    made_ms: Mapping[int, int]
    checkpoints: tuple[int, ...]

    @property
    def newest(self) -> int:
        return max(self.made_ms, default=0)


def read_history(table: Path) -> History:
    """By the names and times of the files. A checkpoint is whole: it is written with its version, and synced with it."""
    made: dict[int, int] = {}
    checkpoints: list[int] = []
    for path in (table / "_delta_log").iterdir():
        if found := ENTRY.fullmatch(path.name):
            made[int(found[1])] = int(path.stat().st_mtime * 1000)
        elif found := CHECKPOINT.fullmatch(path.name):
            checkpoints.append(int(found[1]))
    return History(made, tuple(sorted(checkpoints)))


def oldest_to_keep(history: History, *, versions: int, since_ms: int, told_at: int) -> int:
    """The checkpoint below which everything may go: the versions there are too many, or too old, and the one that says how far the
    table has come, the only memory of who fills it, is not among them. 0 when nothing may go. Pure."""
    too_old = max((version for version, made_ms in history.made_ms.items() if made_ms < since_ms), default=-1) + 1
    enough = max(history.newest - versions + 1, too_old)
    return max((version for version in history.checkpoints if version <= min(enough, told_at)), default=0)


def remove_below(table: Path, *, version: int) -> int:
    """Removes the log entries of older versions, from the oldest on, so that whatever dies here leaves no gap; returns how many."""
    log = table / "_delta_log"
    old = [(int(found[1]), path) for path in log.iterdir() if (found := OF_VERSION.fullmatch(path.name)) and int(found[1]) < version]
    for _, path in sorted(old):
        path.unlink(missing_ok=True)
    sync_all([log])
    return len({number for number, _ in old})


def write_checkpoint(spark: SparkSession, *, location: str) -> None:
    """A checkpoint of the newest version, so that nothing older is needed to read it."""
    jvm: Any = spark._jvm
    jvm.org.apache.spark.sql.delta.DeltaLog.forTable(spark._jsparkSession, location).checkpoint()
