"""Owns how the archive shares its Spark with those who ask it: its own tasks go first, and there is room for them.

Spark takes no task away from whoever has one, so going first is not enough: a query of long tasks would keep every slot until it ends.
There are twice as many slots as tasks that one stage of a query makes; the other half is there when a batch wants it.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

from pyspark.sql import SparkSession

POOL = "spark.scheduler.pool"
ARCHIVE = "archive"
LOCAL = re.compile(r"local(?:\[(?P<cores>\*|[0-9]+)\])?")
POOLS = f"""\
<?xml version="1.0"?>
<allocations>
  <pool name="{ARCHIVE}"><schedulingMode>FIFO</schedulingMode><weight>1000</weight><minShare>1000</minShare></pool>
</allocations>
"""


def cores_of(master: str) -> int | None:
    """How many tasks this master is meant to run at once; None when it is not this process alone. Pure but for `*`."""
    found = LOCAL.fullmatch(master)
    if found is None:
        return None
    return (os.cpu_count() or 1) if found["cores"] == "*" else int(found["cores"] or 1)


def shared_master(master: str) -> str:
    """The same master with room for a batch beside a query."""
    cores = cores_of(master)
    return master if cores is None else f"local[{2 * cores}]"


def sharing(master: str, *, scratch: Path) -> dict[str, str]:
    """The settings under which the archive goes first."""
    pools = scratch / "pools.xml"
    pools.write_text(POOLS)
    settings = {"spark.scheduler.mode": "FAIR", "spark.scheduler.allocation.file": pools.as_uri()}
    if (cores := cores_of(master)) is not None:
        # As many tasks for each stage as there are cores, however many slots: of a scan too, which else has one for each 128 MiB.
        settings |= {"spark.default.parallelism": str(cores), "spark.sql.files.maxPartitionNum": str(cores)}
    return settings


def go_first(spark: SparkSession) -> None:
    """For the thread that archives; whatever it runs from now on goes before what others ask."""
    spark.sparkContext.setLocalProperty(POOL, ARCHIVE)
