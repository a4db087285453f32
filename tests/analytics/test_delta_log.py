from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

from pyspark.sql import SparkSession

from analytics.commits import Commit, CommittedTable
from analytics.delta_log import DeltaLog, parse_entry
from analytics.tables import EVENTS
from analytics.transforms import to_events
from tests.analytics.test_transforms import raw


def append(spark: SparkSession, events: CommittedTable) -> Path:
    events.append(to_events(raw(spark, {}), batch=1, archived_at=datetime.now(UTC)), commit=Commit("run", "events", 1, {}, read=1))
    return Path(events.location)


def test_a_log_entry_is_read_with_its_metadata_rows_and_files(spark: SparkSession, events: CommittedTable) -> None:
    table = append(spark, events)
    log = DeltaLog(spark, location=str(table))

    entry = log.newest()

    assert (entry.version, entry.rows, '"batch":1' in entry.user_metadata) == (1, 1, True)
    assert [(table / name).is_file() for name in entry.data_files] == [True]
    assert [one.version for one in log.downwards(start=1)] == [1, 0]


def test_paths_with_escapes_name_the_file_on_the_disk() -> None:
    content = b'{"add":{"path":"d=2026-01-01/a%20b.parquet"}}\n'

    assert parse_entry(content, version=3).data_files == ("d=2026-01-01/a b.parquet",)


def test_a_commit_is_synced_data_first_then_its_log_entry_each_with_its_directories(
    spark: SparkSession, events: CommittedTable, synced: list[str]
) -> None:
    table = append(spark, events)

    names = [str(Path(path).relative_to(table)) for path in synced]
    kinds = ["data" if name.endswith((".parquet", ".parquet.crc")) else name for name in names]
    assert kinds[:2] == ["data", "data"]
    assert set(kinds[2:4]) == {"received_date=2026-02-28", "."}
    assert kinds[4] == f"_delta_log/{1:020}.json"
    assert kinds[-1] == "_delta_log"


def test_creating_a_table_is_synced_too(location: str, synced: list[str], spark: SparkSession) -> None:
    CommittedTable(spark, table=EVENTS, location=location)

    assert f"{location}/_delta_log/{0:020}.json" in synced
    lake = Path(location).parent
    assert synced[-3:] == [f"{location}/_delta_log", str(lake), str(lake.parent)]
