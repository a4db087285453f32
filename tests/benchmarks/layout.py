"""Measures how `events` is best laid out: `python -m tests.benchmarks.layout` fills two tables with the same rows, one partitioned by the
date received, one clustered (Delta's `CLUSTER BY`), asks both the same questions, and prints the table of `analytics/README.md`.

Rows are made by Spark itself, with small bodies: what is compared is which files a question opens, not how large they are. Told are
seconds of processor time of Spark's JVM, which others on the machine hardly change, and of questions the median.
"""

from __future__ import annotations

import os
import shutil
import statistics
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

import typer
from delta.tables import DeltaTable
from pyspark.sql import DataFrame, SparkSession

from analytics.session import archive_session, driver_process, stop_session
from analytics.settings import ArchiveSettings
from analytics.tables import EVENTS

DAYS = 30
TENANTS = 20
TYPES = 40
FIRST_MS = 1_767_225_600_000  # 2026-01-01
# Every batch of the archive is some minutes of a day, so files hold neighbours in time; that is what clustering has to beat.
ROWS = f"""
SELECT
  concat(lpad(hex(ms), 12, '0'), '-7', lpad(hex(pmod(id, 4096)), 3, '0'), '-', lpad(hex(hash(id)), 16, '0')) AS id,
  concat('tenant-', pmod(hash(id), {TENANTS})) AS tenant_id,
  concat('source-', pmod(hash(id, 1), 3)) AS source,
  concat('github.kind_', pmod(hash(id, 2), {TYPES})) AS event_type,
  concat('delivery-', id) AS delivery_id,
  timestamp_millis(ms) AS received_at,
  DATE(timestamp_millis(ms)) AS received_date,
  CAST(hex(id) AS BINARY) AS body,
  '0:default' AS stream, 'a' AS incarnation, concat(ms, '-0') AS entry_id, id AS sequence, id DIV %(each)d AS batch,
  timestamp_millis(ms + 2000) AS archived_at
FROM (SELECT id, {FIRST_MS} + id * {DAYS} * 86400000 DIV %(rows)d AS ms FROM range(%(first)d, %(end)d, 1, 4))
"""


@dataclass(slots=True)
class Layout:
    """One way to lay the table out, and what it cost."""

    name: str
    clustered_by: tuple[str, ...] = ()
    write_s: float = 0.0
    optimise_s: float = 0.0
    files: int = 0
    asked_s: dict[str, list[float]] = field(default_factory=dict)


LAYOUTS = (
    Layout("partitions by date"),
    Layout("clustered by date, tenant, type", ("received_date", "tenant_id", "event_type")),
)


def processor_s(spark: SparkSession) -> float:
    """What the JVM has used so far, in its own code and in the kernel's."""
    fields = Path(f"/proc/{driver_process(spark).pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def create(spark: SparkSession, layout: Layout, *, location: str) -> None:
    builder = DeltaTable.create(spark).location(location)
    for column in EVENTS.columns:
        builder = builder.addColumn(column.name, column.type)
    builder = builder.clusterBy(*layout.clustered_by) if layout.clustered_by else builder.partitionedBy(EVENTS.partitioned_by)
    # Delta clusters only by columns that files record the least and the greatest value of.
    indexed = dict.fromkeys((*EVENTS.indexed, *layout.clustered_by))
    builder.property("delta.dataSkippingStatsColumns", ",".join(indexed)).execute()


def fill(spark: SparkSession, *, location: str, rows: int, batches: int) -> float:
    began = processor_s(spark)
    each = rows // batches
    for batch in range(batches):
        made = spark.sql(ROWS % {"rows": rows, "each": each, "first": batch * each, "end": (batch + 1) * each})
        missing = [f"CAST(NULL AS {column.type}) AS `{column.name}`" for column in EVENTS.columns if column.name not in made.columns]
        made.selectExpr("*", *missing).write.format("delta").mode("append").save(location)
    return processor_s(spark) - began


def questions(spark: SparkSession, *, location: str, rows: int) -> dict[str, Callable[[], DataFrame]]:
    """As `hooklake query` would ask them; an event by its id without its date, which nobody remembers."""
    wanted = spark.sql(ROWS % {"rows": rows, "each": rows, "first": rows // 2, "end": rows // 2 + 1}).collect()[0].id

    def ask(sql: str) -> Callable[[], DataFrame]:
        return lambda: spark.sql(sql.replace("events", f"delta.`{location}`"))

    week = "received_date BETWEEN '2026-01-08' AND '2026-01-14'"
    return {
        "one event by id": ask(f"SELECT id, body FROM events WHERE id = '{wanted}'"),
        "one tenant's type over a week": ask(
            f"SELECT id, body FROM events WHERE tenant_id = 'tenant-7' AND event_type = 'github.kind_3' AND {week}"
        ),
        "hourly counts over everything": ask("SELECT date_trunc('hour', received_at) AS hour, count(*) FROM events GROUP BY ALL"),
    }


def measure(spark: SparkSession, layout: Layout, *, folder: Path, rows: int, batches: int, repetitions: int) -> None:
    location = str(folder / layout.name.replace(" ", "-").replace(",", ""))
    create(spark, layout, location=location)
    layout.write_s = fill(spark, location=location, rows=rows, batches=batches)
    began = processor_s(spark)
    DeltaTable.forPath(spark, location).optimize().executeCompaction()
    layout.optimise_s = processor_s(spark) - began
    layout.files = len(spark.read.format("delta").load(location).inputFiles())
    asked = questions(spark, location=location, rows=rows)
    for repetition in range(repetitions + 1):
        for name, ask in asked.items():
            began = processor_s(spark)
            ask().collect()
            if repetition:  # The first time everything is compiled.
                layout.asked_s.setdefault(name, []).append(processor_s(spark) - began)
    shutil.rmtree(location)


def table(layouts: tuple[Layout, ...]) -> str:
    """Pure."""
    lines = ["| | " + " | ".join(layout.name for layout in layouts) + " |", "|---|" + "---|" * len(layouts)]
    lines.append("| writing | " + " | ".join(f"{layout.write_s:.0f} s" for layout in layouts) + " |")
    lines.append("| `OPTIMIZE` | " + " | ".join(f"{layout.optimise_s:.0f} s" for layout in layouts) + " |")
    lines.append("| files after it | " + " | ".join(f"{layout.files}" for layout in layouts) + " |")
    for name in layouts[0].asked_s:
        lines.append(f"| {name} | " + " | ".join(f"{statistics.median(layout.asked_s[name]):.2f} s" for layout in layouts) + " |")
    return "\n".join(lines)


def main(
    rows: Annotated[int, typer.Option(min=1000)] = 5_000_000,
    batches: Annotated[int, typer.Option(min=1)] = 20,
    repetitions: Annotated[int, typer.Option(min=1)] = 5,
) -> None:
    """Measures and prints."""
    with tempfile.TemporaryDirectory(prefix="layout-") as name:
        spark = archive_session(ArchiveSettings(driver_memory="2g"), home=Path(name))
        try:
            for layout in LAYOUTS:
                measure(spark, layout, folder=Path(name), rows=rows, batches=batches, repetitions=repetitions)
                print(table((layout,)), flush=True)
        finally:
            stop_session(spark)
    print(f"{rows:,} rows of {DAYS} days in {batches} batches\n\n{table(LAYOUTS)}")


if __name__ == "__main__":
    typer.run(main)
