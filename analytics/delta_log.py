"""Owns what lies beneath a Delta table: the entries of its log as files, and syncing a commit to the disk.

Delta on a local disk writes, closes and renames, and never syncs: after a power cut its newest entry can be empty or gone.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import orjson
from pyspark.sql import SparkSession

from analytics.settings import is_address

BY_TIME = -1


@dataclass(frozen=True, slots=True)
class LogEntry:
    """One version of a table, as its log tells it."""

    version: int
    user_metadata: str
    rows: int
    data_files: tuple[str, ...]
    """Paths of the files that this version added, relative to the table."""
    data_bytes: tuple[int, ...] = ()
    """How large each of them must be."""
    is_whole: bool = True
    """Whether the entry says what made it, and names as many files as that wrote; one that lost its last lines does not."""
    committed_at_ms: int = 0
    """By the clock of whoever committed it."""
    restored_to: int | None = None
    """The version that it made the table's content again; BY_TIME when it names a time instead. None for all that is no RESTORE."""


def parse_entry(content: bytes, *, version: int) -> LogEntry:
    """Pure; a line is one action."""
    actions = [orjson.loads(line) for line in content.splitlines() if line.strip()]
    information: dict[str, Any] = next((action["commitInfo"] for action in actions if "commitInfo" in action), {})
    return LogEntry(
        version=version,
        user_metadata=information.get("userMetadata") or "",
        rows=_rows_added(information),
        data_files=tuple(unquote(action["add"]["path"]) for action in actions if "add" in action),
        data_bytes=tuple(int(action["add"].get("size", 0)) for action in actions if "add" in action),
        is_whole=bool(information) and _has_all_files(information, added=sum("add" in action for action in actions)),
        committed_at_ms=int(information.get("timestamp") or 0),
        restored_to=_restored_to(information),
    )


def _restored_to(information: dict[str, Any]) -> int | None:
    if information.get("operation") != "RESTORE":
        return None
    version = information.get("operationParameters", {}).get("version")
    return BY_TIME if version is None else int(version)


def _rows_added(information: dict[str, Any]) -> int:
    # A change that rewrites files counts the rows it copies, too.
    return int(information.get("operationMetrics", {}).get("numOutputRows", 0)) if information.get("operation") == "WRITE" else 0


def _has_all_files(information: dict[str, Any], *, added: int) -> bool:
    written = information.get("operationMetrics", {}).get("numFiles") if information.get("operation") == "WRITE" else None
    return written is None or int(written) == added


class DeltaLog:
    """The log of one table, read through Hadoop's file system, so that a disk and an object store look alike."""

    def __init__(self, spark: SparkSession, *, location: str) -> None:
        self.location = location
        jvm: Any = spark._jvm
        self._jvm = jvm
        self._session = spark._jsparkSession
        self._files = self._directory().getFileSystem(spark._jsc.hadoopConfiguration())

    @property
    def has_versions(self) -> bool:
        # The log's own clean-up takes old versions, and leaves a checkpoint.
        return bool(self._files.exists(self._path(0)) or self._files.exists(self._hint()))

    def clear_stillborn(self) -> None:
        """Removes the log of a table whose creation was killed before its first version: Delta would neither open nor create it.

        Temporary files alone: where there is anything else, somebody has to look at it.
        """
        directory = self._directory()
        if self._files.exists(directory) and all(file.getPath().getName().startswith(".") for file in self._files.listStatus(directory)):
            self._files.delete(directory, True)

    def newest(self, *, at_least: int = 0) -> LogEntry:
        """The newest entry, looked for upwards from a version that existed."""
        version = max(at_least, self._last_checkpoint())
        while self._files.exists(self._path(version + 1)):
            version += 1
        return self.entry(version)

    def since(self, version: int) -> Iterator[LogEntry]:
        """Entries above a version, in their order."""
        while self._files.exists(self._path(version := version + 1)):
            yield self.entry(version)

    def downwards(self, *, start: int) -> Iterator[LogEntry]:
        """Entries from `start` down to the oldest that the log's own clean-up has left."""
        for version in range(start, -1, -1):
            if not self._files.exists(self._path(version)):
                return
            yield self.entry(version)

    def entry(self, version: int) -> LogEntry:
        return parse_entry(self._content(self._path(version)), version=version)

    def _last_checkpoint(self) -> int:
        hint = self._hint()
        return int(orjson.loads(self._content(hint))["version"]) if self._files.exists(hint) else 0

    def _directory(self) -> Any:
        return self._jvm.org.apache.hadoop.fs.Path(f"{self.location}/_delta_log")

    def _hint(self) -> Any:
        return self._jvm.org.apache.hadoop.fs.Path(f"{self.location}/_delta_log/_last_checkpoint")

    def _content(self, path: Any) -> bytes:
        stream = self._files.open(path)
        try:
            return bytes(stream.readAllBytes())
        finally:
            stream.close()

    def forget_cache(self) -> None:
        """After the files were changed behind Delta's back."""
        self._jvm.org.apache.spark.sql.delta.DeltaLog.clearCache()

    def recall_transactions(self) -> None:
        """Takes as long as an append would take for it; Delta remembers the answer until there is a newer version."""
        self._jvm.org.apache.spark.sql.delta.DeltaLog.forTable(self._session, self.location).unsafeVolatileSnapshot().setTransactions()

    def sync(self, entry: LogEntry) -> None:
        """Returns when the version would survive a power cut. An object store has done that before it answered."""
        if not is_address(self.location):
            sync_version(Path(self.location), entry=entry)

    @contextmanager
    def synced(self) -> Iterator[None]:
        """For a block that commits something besides an append, such as a compaction: at its end every version it made is synced."""
        before = self.newest().version
        yield
        newest = self.newest(at_least=before).version
        for version in range(before + 1, newest + 1):
            self.sync(self.entry(version))

    def sync_name(self) -> None:
        """The same for the table's own name, and that of the directory which holds it: a new table could be gone whole."""
        if not is_address(self.location):
            sync_all([Path(self.location).parent, Path(self.location).parent.parent])

    def _path(self, version: int) -> Any:
        return self._jvm.org.apache.hadoop.fs.Path(f"{self.location}/_delta_log/{version:020}.json")


def sync_version(table: Path, *, entry: LogEntry) -> None:
    """Data first, then the log entry that names it; of each the files, then the directories that name those."""
    data = [table / name for name in entry.data_files]
    sync_all(_with_checksum(data))
    sync_all({directory for path in data for directory in _up_to(path.parent, root=table)} | {table})
    sync_all(_with_checksum(_log_files(table / "_delta_log", version=entry.version)))
    sync_all([table / "_delta_log"])


def _log_files(log: Path, *, version: int) -> list[Path]:
    names = [f"{version:020}.json", f"{version:020}.crc", f"{version:020}.checkpoint.parquet", "_last_checkpoint"]
    return [log / name for name in names]


def _with_checksum(paths: Iterable[Path]) -> Iterator[Path]:
    # Hadoop writes `.name.crc` beside each file and refuses the file when the two do not match: an empty one would do harm.
    for path in paths:
        for each in (path, path.with_name(f".{path.name}.crc")):
            if each.exists():
                yield each


def _up_to(directory: Path, *, root: Path) -> Iterator[Path]:
    while directory != root:
        yield directory
        directory = directory.parent


def sync_all(paths: Iterable[Path]) -> None:
    for path in paths:
        descriptor = os.open(path, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def is_table(spark: SparkSession, *, location: str) -> bool:
    """Whether there is a table at all. Delta also takes the folder for one whose creation was killed, and then finds none in it."""
    return DeltaLog(spark, location=location).has_versions
