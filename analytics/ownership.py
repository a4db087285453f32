"""Owns the rule that one archive writes a table: locks beside it, where it is on a local disk.

Two locks, because two processes must be gone before another may write. Ours refuses a second archive at once, before Spark
starts; the JVM's is held by the process that really commits, which outlives us for a moment when we are killed.
"""

from __future__ import annotations

import errno
import fcntl
import os
import time
from pathlib import Path
from typing import IO, Any

from pyspark.sql import SparkSession

from schemas.errors import ConfigError, NotTheArchive, TableUnavailable

LOCK_NAME = ".archive.lock"
JVM_LOCK_NAME = ".archive.jvm.lock"


def own(lake: Path) -> IO[str]:
    """Holds the tables' directory while the returned file is open; raises NotTheArchive when another process does.

    Raises ConfigError where there can be no such directory.
    """
    try:
        lake.mkdir(parents=True, exist_ok=True)
        file = (lake / LOCK_NAME).open("a+")
    except OSError as error:
        if error.errno == errno.ENOSPC:
            raise TableUnavailable(f"{lake} cannot be made: the disk is full") from error
        raise ConfigError(
            f"archive.path: {lake} cannot be a directory of ours ({error.strerror}), so no event could be archived: clear it away, "
            "or set another path"
        ) from error
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        file.seek(0)
        holder = file.read().strip() or "another process"
        file.close()
        raise NotTheArchive(f"{lake} belongs to a running archive ({holder}): two writers would overwrite each other's commits") from error
    file.truncate(0)
    file.write(f"pid {os.getpid()}")
    file.flush()
    return file


def own_in_jvm(spark: SparkSession, *, lake: Path, patience_s: float = 30) -> Any:
    """The same for Spark's JVM; waits for a predecessor's JVM to end. Keep what it returns."""
    jvm: Any = spark._jvm
    channel = jvm.java.io.RandomAccessFile(str(lake / JVM_LOCK_NAME), "rw").getChannel()
    deadline = time.monotonic() + patience_s
    while channel.tryLock() is None:
        if time.monotonic() > deadline:
            channel.close()
            raise NotTheArchive(f"an earlier archive's JVM still holds {lake} after {patience_s:.0f} s: end it, then start again")
        time.sleep(0.1)
    return channel
