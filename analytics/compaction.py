"""Owns deciding which partitions of a table are worth rewriting into fewer files. Pure, but for looking at the files.

Every batch writes at least one file, so a table that is filled once a second would have 86,400 a day. A file that is large enough is
never rewritten again: what is compacted every hour is what came in that hour.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any
from urllib.parse import unquote, urlparse

from pyspark.sql import SparkSession

from analytics.settings import is_address

SMALL_BYTES = 64 * 1024 * 1024
LARGEST_BYTES = 256 * 1024 * 1024
# So many small files make a partition worth it on the schedule; by hand, two do.
ON_SCHEDULE = 8
# Files of the last minutes do not count there: more of them will come, and would be rewritten with these.
SETTLED_MS = 300_000
NO_VALUE = "__HIVE_DEFAULT_PARTITION__"


@dataclass(frozen=True, slots=True)
class DataFile:
    """One file of a table's newest version."""

    partition: str
    """As the directories spell it, `received_date=2026-01-31`; empty in a table without partitions."""
    size_bytes: int
    modified_ms: int


def worth_rewriting(files: Iterable[DataFile], *, now_ms: int, by_hand: bool) -> list[str]:
    """The partitions with too many small files, the oldest first."""
    counted: dict[str, list[DataFile]] = {}
    for file in files:
        if file.size_bytes < SMALL_BYTES:
            counted.setdefault(file.partition, []).append(file)
    if by_hand:
        return sorted(partition for partition, small in counted.items() if len(small) >= 2)
    return sorted(partition for partition, small in counted.items() if _settled(small, now_ms=now_ms) >= ON_SCHEDULE)


def _settled(files: Sequence[DataFile], *, now_ms: int) -> int:
    return sum(now_ms - file.modified_ms >= SETTLED_MS for file in files)


def predicate_of(partition: str) -> str | None:
    """What selects the partition in SQL; None for a table without partitions."""
    if not partition:
        return None
    pairs = (part.partition("=") for part in partition.split("/"))
    return " AND ".join(
        f"`{name}` IS NULL" if value == NO_VALUE else f"`{name}` = '{unquote(value).replace(chr(39), '')}'" for name, _, value in pairs
    )


def data_files(spark: SparkSession, *, location: str) -> list[DataFile]:
    """The files of the newest version; looks at each once."""
    paths = spark.read.format("delta").load(location).inputFiles()
    if is_address(location):
        return [_remote(spark, path, root=location) for path in paths]
    return [_local(Path(unquote(urlparse(path).path)), root=Path(location)) for path in paths]


def _local(path: Path, *, root: Path) -> DataFile:
    state = path.stat()
    return DataFile(_partition(path.relative_to(root).as_posix()), state.st_size, int(state.st_mtime * 1000))


def _remote(spark: SparkSession, path: str, *, root: str) -> DataFile:
    jvm: Any = spark._jvm
    name = jvm.org.apache.hadoop.fs.Path(path)
    state = name.getFileSystem(spark._jsc.hadoopConfiguration()).getFileStatus(name)
    return DataFile(_partition(path.removeprefix(root).lstrip("/")), state.getLen(), state.getModificationTime())


def _partition(relative: str) -> str:
    parent = PurePosixPath(relative).parent.as_posix()
    return "" if parent == "." else parent
