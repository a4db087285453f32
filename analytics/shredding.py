"""Owns removing bytes of deleted rows at once, instead of when their time comes: what time travel could still have read is gone."""

from __future__ import annotations

import gc
import shutil
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from analytics import torn, versions
from analytics.delta_log import DeltaLog
from analytics.kept import Kept
from analytics.requests import Tell
from analytics.session_settings import settings_of
from analytics.settings import is_address
from analytics.synced import as_unavailable
from analytics.tending import vacuum

NO_FLOOR = {"spark.databricks.delta.retentionDurationCheck.enabled": "false"}
TOMBSTONES = "delta.deletedFileRetentionDuration"
SCRATCH_WITHIN_S = 20.0


def shred(tables: Sequence[Kept], *, tell: Tell) -> list[str]:
    """Leaves of every table its newest version only; returns a sentence for each thing that it could not reach."""
    left = []
    for number, table in enumerate(tables):
        tell(f"removing old versions of {table.name}", number, len(tables))
        with as_unavailable(table.location, cannot="be cleared of old versions"):
            left += shred_table(table)
    return left + clear_scratch(tables[0].spark)


def shred_table(table: Kept) -> list[str]:
    spark, location = table.spark, table.location
    log = DeltaLog(spark, location=location)
    table.check_lease()
    with settings_of(spark, NO_FLOOR):
        vacuum(spark, location=location, hours=0)
    if is_address(location):
        return [f"log entries of {location}, which have the least and the greatest values of columns until Delta's own clean-up"]
    # The log's own entries name values, too. So the newest version becomes one that says how far the table has come and adds nothing;
    # its checkpoint has the whole state, and every entry before it can go.
    with no_tombstones(table):
        table.repeat()
        versions.write_checkpoint(spark, location=location)
        newest = log.newest()
        log.sync(newest)
    versions.remove_below(Path(location), version=newest.version)
    shutil.rmtree(Path(location) / torn.DIRECTORY, ignore_errors=True)
    remove_empty_partitions(Path(location))
    log.forget_cache()
    return []


@contextmanager
def no_tombstones(table: Kept) -> Iterator[None]:
    """Checkpoints written inside name only files that there are; else they name those of the last week, too.

    Vacuum goes by those names, so that is only for a moment. Who is killed in it is followed by one who does it again.
    """
    if not table.is_split_by_text:
        yield
        return
    log, alter = DeltaLog(table.spark, location=table.location), f"ALTER TABLE delta.`{table.location}`"
    with log.synced():
        table.spark.sql(f"{alter} SET TBLPROPERTIES ('{TOMBSTONES}' = 'interval 0 seconds')")
    yield
    with log.synced():
        table.spark.sql(f"{alter} UNSET TBLPROPERTIES ('{TOMBSTONES}')")


def remove_empty_partitions(table: Path) -> None:
    """Their directories are named by values: `namespace=github`."""
    for directory in table.glob("*=*"):
        with suppress(OSError):  # It has files.
            directory.rmdir()


def clear_scratch(spark: SparkSession) -> list[str]:
    """Spark removes what it shuffled once nobody refers to it; so its driver is asked to notice."""
    jvm: Any = spark._jvm
    scratch = Path(spark.sparkContext.getConf().get("spark.local.dir") or "")
    # What this process holds of Spark's plans keeps their shuffles, and so does what Delta remembers of a table.
    jvm.org.apache.spark.sql.delta.DeltaLog.clearCache()
    deadline = time.monotonic() + SCRATCH_WITHIN_S
    while found := [path for path in scratch.rglob("*.data") if path.name.startswith("shuffle_")]:
        if time.monotonic() > deadline:
            return [f"{len(found)} files under {scratch}, which go when the archive is restarted"]
        gc.collect()
        jvm.System.gc()
        time.sleep(0.2)
    return []
