"""Looking after a table that a real archive fills: rows stay, files and log entries do not pile up, positions are never forgotten."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from analytics import tending, versions
from analytics.archive import following
from analytics.chains import Chains
from analytics.requests import Request, Result
from analytics.session_settings import settings_of
from analytics.settings import TABLE_NAMES, ArchiveSettings
from analytics.tables import TABLES
from analytics.tending import Schedule
from analytics.transforms import to_events
from infra.settings import LogSettings
from infra.streams.overview import read_overview
from schemas.errors import ConfigError
from tests.analytics.conftest import OpenChains, append
from tests.analytics.test_transforms import raw
from tests.events import an_event
from tests.lake import archived

KEPT = 10
SETTINGS = ArchiveSettings(history_versions=KEPT)
Begin = Callable[[], Chains]


@pytest.fixture
def begin(open_chains: OpenChains) -> Begin:
    return lambda: open_chains(settings=SETTINGS)


def rows_of(chains: Chains) -> DataFrame:
    return chains.events.open().table.dataframe()


def rows_known(chains: Chains) -> int:
    assert chains.events.last is not None
    return chains.events.last.totals.rows


def upkeep(chains: Chains, **arguments: Any) -> Result:
    return tending.act(chains, Request("name", "upkeep", arguments, by="somebody", asked_ms=0), lambda *_: None)


def small_batches(spark: SparkSession, chains: Chains, *, count: int) -> None:
    """Commits of one row each, as the archive makes them, without a log in between."""
    table = chains.events.open().table
    for _ in range(count):
        assert chains.events.last is not None
        commit = following(chains.events.last)
        row = raw(spark, {"id": f"small-{commit.batch}", "entry_id": f"{commit.batch}-0"})
        rows = to_events(row, batch=commit.batch, archived_at=datetime.now(UTC))
        chains.events.last = table.append(rows, commit=commit)


def log_entries(location: str) -> int:
    return sum(1 for _ in (Path(location) / "_delta_log").iterdir())


def test_the_archive_goes_on_after_upkeep_and_no_row_is_lost_or_twice(
    begin: Begin, log: LogSettings, home: Path, location: str, synced: list[str]
) -> None:
    chains = begin()
    events = [an_event() for _ in range(3)]
    for event in events:
        append(log, home, event)
        chains.step()
    synced.clear()

    (report,) = upkeep(chains, table="events")["tables"]

    assert (report["files_before"], report["files_after"], len(report["rewritten"])) == (3, 1, 1)
    compacted = rows_of(chains).inputFiles()[0].rpartition("/")[2]
    assert [path for path in synced if path.endswith(compacted)]
    append(log, home, another := an_event())
    chains.step()
    assert sorted(row["id"] for row in archived(home, "id")) == sorted(event.id for event in [*events, another])
    # Another run reads the positions, though a compaction lies among the commits: nothing is read again.
    assert rows_known(begin()) == 4


@pytest.mark.fault("E16")
@pytest.mark.timeout(7200)
def test_small_batches_leave_few_files_and_log_entries(
    begin: Begin, spark: SparkSession, location: str, pytestconfig: pytest.Config
) -> None:
    rounds, batches = (20, 100) if pytestconfig.getoption("--full-size") else (2, 8)
    chains, sizes, looks = begin(), [], []
    for _ in range(rounds):
        small_batches(spark, chains, count=batches)
        (report,) = upkeep(chains, table="events")["tables"]
        began = time.monotonic()
        found = versions.read_history(Path(location))
        looks.append(time.monotonic() - began)
        sizes.append((report["files_after"], len(found.made_ms)))

    assert max(files for files, _ in sizes) == 1
    # Between two checkpoints there are the batches of a round, and the versions that upkeep itself makes.
    assert sizes[-1][1] <= KEPT + batches + 2 < rounds * (batches + 2) + 2
    assert looks[-1] < 1
    assert rows_of(chains).count() == rounds * batches
    # The positions are still there: what the next run begins with is what this one ended with.
    assert rows_known(begin()) == rounds * batches


@pytest.mark.control("E16")
def test_without_upkeep_files_and_log_entries_pile_up(begin: Begin, spark: SparkSession, location: str) -> None:
    chains = begin()
    small_batches(spark, chains, count=5)

    assert len(rows_of(chains).inputFiles()) == 5
    assert len(versions.read_history(Path(location)).made_ms) > 5


@pytest.mark.fault("E8")
def test_versions_within_the_floor_can_be_read_after_upkeep(begin: Begin, spark: SparkSession, location: str) -> None:
    chains = begin()
    small_batches(spark, chains, count=2)
    version = versions.read_history(Path(location)).newest
    small_batches(spark, chains, count=1)

    upkeep(chains)

    assert as_of(spark, location, version=version) == 2


@pytest.mark.control("E8")
def test_without_the_floor_upkeep_takes_the_files_from_beneath_a_reader(
    begin: Begin, spark: SparkSession, location: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    chains = begin()
    small_batches(spark, chains, count=2)
    version = versions.read_history(Path(location)).newest
    monkeypatch.setattr(ArchiveSettings, "vacuum_after_hours", 0)

    with settings_of(spark, {"spark.databricks.delta.retentionDurationCheck.enabled": "false"}):
        upkeep(chains)

    with pytest.raises((PySparkException, Py4JError)):
        as_of(spark, location, version=version)


def as_of(spark: SparkSession, location: str, *, version: int) -> int:
    """Counted by reading them: Delta knows how many rows a file has without looking into it."""
    return len(spark.read.format("delta").option("versionAsOf", version).load(location).select("id", "body").collect())


def test_a_dry_run_says_what_would_be_done_and_does_nothing(begin: Begin, spark: SparkSession, location: str) -> None:
    chains = begin()
    small_batches(spark, chains, count=2)
    before = log_entries(location)

    (report,) = upkeep(chains, table="events", dry_run=True)["tables"]

    assert (report["files_before"], len(report["rewritten"]), report["files_after"]) == (2, 1, 2)
    assert log_entries(location) == before


def test_a_table_that_does_not_exist_is_refused(begin: Begin) -> None:
    with pytest.raises(ConfigError, match="no table 'evnts' to look after: there are events"):
        upkeep(begin(), table="evnts")


def test_the_schedule_does_nothing_before_it_is_due_and_then_everything_once(
    begin: Begin, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    chains = begin()
    (home / "run").mkdir(exist_ok=True)
    schedule = Schedule(ArchiveSettings(upkeep_interval_ms=3_600_000), home=home)

    schedule.serve(chains)
    assert not (home / "run" / "archive.vacuumed").exists()

    schedule._due = 0
    monkeypatch.setattr(tending, "BUDGET_S", -1.0)  # One step at a time.
    calls = 0
    while not (home / "run" / "archive.vacuumed").exists():
        schedule.serve(chains)
        calls += 1
    assert calls > 1
    assert schedule._due > time.monotonic()


def test_a_shorter_floor_than_a_week_is_refused() -> None:
    with pytest.raises(ValueError, match="167h is less than 168h"):
        ArchiveSettings(vacuum_after="167h")


def test_rows_past_their_retention_go_in_whole_days_and_the_books_balance(open_chains: OpenChains, log: LogSettings, home: Path) -> None:
    now = datetime.now(UTC)
    old, young = now - timedelta(hours=168, days=2), now - timedelta(hours=168) + timedelta(minutes=1)
    append(
        log, home, *(an_event(timestamp=moment, tenant_id=tenant) for moment, tenant in ((old, "a"), (old, "b"), (young, "a"), (now, "a")))
    )
    chains = open_chains(settings=ArchiveSettings(retention={"events": "168h"}))

    assert upkeep(chains, table="events", dry_run=True)["tables"][0]["expired"] == 2
    assert upkeep(chains, table="events")["tables"][0]["expired"] == 2

    assert rows_of(chains).count() == 2
    assert upkeep(chains, table="events")["tables"][0]["expired"] == 0
    books = read_overview(log, home=home)
    assert (books.accepted, books.archived_events, books.expired, books.out_of_balance) == (4, 2, 2, 0)
    assert books.books is not None
    assert {owner: (one.archived, one.expired, one.missing) for owner, one in books.books.items()} == {
        ("a", "github"): (2, 1, 0),
        ("b", "github"): (0, 1, 0),
    }


@pytest.mark.parametrize("retention", [{"evnts": "9000h"}, {"events": "24h"}, {"events": "2d"}, {"events": "0h"}])
def test_a_retention_that_cannot_be_is_refused(retention: dict[str, str]) -> None:
    with pytest.raises(ValueError, match=r"no table|is no time"):
        ArchiveSettings(retention=retention)


def test_the_settings_know_every_table() -> None:
    assert [table.name for table in TABLES] == list(TABLE_NAMES)
