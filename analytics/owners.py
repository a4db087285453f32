"""Owns counting whose the rows of a commit are, in the files that it added: cheap, and known after the commit only.

So each commit carries the counts of all before it, and those of the newest are counted again when the archive starts. What cannot be
counted is unknown until the next start counts the whole table; it never fails a batch that is committed already.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pyarrow as pa  # type: ignore[import-untyped]
import pyarrow.parquet as pq  # type: ignore[import-untyped]
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from analytics.commits import Commit, CommittedTable
from analytics.delta_log import LogEntry
from analytics.settings import is_address
from analytics.tables import EVENTS

COLUMNS = ("tenant_id", "source", "sequence")


def counted(spark: SparkSession, table: CommittedTable, *, commit: Commit) -> Commit:
    """The commit that was just made, with whose its rows are."""
    if table.table.name != EVENTS.name or commit.owners is None or not commit.rows:
        return commit
    entry = table.own_entry()
    here = None if entry is None else of_files(spark, entry, location=table.location)
    return replace(commit, owners=None) if here is None else replace(commit, here=here)


def known(spark: SparkSession, table: CommittedTable, *, commit: Commit) -> Commit:
    """The commit that the archive starts from; counts the whole table when no commit says."""
    if table.table.name != EVENTS.name:
        return commit
    if commit.batch == 0:
        return replace(commit, owners={})
    found = counted(spark, table, commit=commit)
    if found.owners is not None:
        return found
    gone = Counter(commit.erased) + Counter(commit.expired)
    return replace(commit, owners=dict(of_rows(table.dataframe()) + gone), here={})


def of_rows(rows: DataFrame) -> Counter[str]:
    """Accepted events by tenant and source; what the log gave no number nobody accepted."""
    accepted = rows.where("sequence IS NOT NULL").groupBy("tenant_id", "source").count().collect()
    return Counter({f"{row.tenant_id}:{row.source}": row["count"] for row in accepted})


def with_more(before: Mapping[str, int], more: Counter[str]) -> dict[str, int]:
    return dict(Counter(before) + more)


def of_files(spark: SparkSession, entry: LogEntry, *, location: str) -> dict[str, int] | None:
    """The same in the files of one version; None when they cannot be read any more."""
    try:
        if is_address(location):
            paths = [f"{location}/{name}" for name in entry.data_files]
            return dict(of_rows(spark.read.parquet(*paths))) if paths else {}
        return dict(sum((_of_file(Path(location) / name) for name in entry.data_files), Counter[str]()))
    except (OSError, pa.ArrowException, PySparkException):
        return None


def _of_file(path: Path) -> Counter[str]:
    # Opened alone, since by its path it would be a part of a dataset, whose partition column the file does not have.
    with path.open("rb") as file:
        rows = pq.ParquetFile(file).read(list(COLUMNS))
    numbered = rows.filter(rows["sequence"].is_valid())
    found = numbered.group_by(["tenant_id", "source"]).aggregate([([], "count_all")]).to_pylist()
    return Counter({f"{row['tenant_id']}:{row['source']}": row["count_all"] for row in found})
