"""The driver's clock goes back by an hour between two batches: positions and numbers do not go by it, and time travel still works."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import os
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from analytics.commits import Commit, CommittedTable, commit_in
from analytics.delta_log import LogEntry, parse_entry
from infra.running.embedded import EmbeddedServer
from schemas.errors import WriteSkipped
from tests.faults.archive_process import REAL, ArchiveProcess, append_many
from tests.faults.archive_world import ArchiveWorld
from tests.faults.checker import Accepted, rows_of
from tests.faults.clocks import MovingClock
from tests.faults.test_archive_input import nothing
from tests.ports import free_port

Breaks = Callable[[pytest.MonkeyPatch], object]
HOUR_S = 3600
SOME = 5


@dataclass(frozen=True, slots=True)
class SetBack:
    """A home whose archive has gone on after its clock was set back, and has ended; and what was accepted."""

    server: EmbeddedServer
    home: Path
    accepted: list[Accepted]


@pytest.fixture(scope="module")
def set_back(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SetBack]:
    folder = tmp_path_factory.mktemp("time")
    clock, server = MovingClock(folder), EmbeddedServer(folder / "log", free_port(), password="a-test-password")
    server.start()
    settings = {"ARCHIVE__MASTER": "local[2]", "ARCHIVE__INTERVAL_MS": "100"}
    archive = ArchiveProcess(folder / "home", log_url=server.url, preload=clock.library, **settings)
    archive.start(REAL)
    try:
        accepted = [one for step_s in (0, -HOUR_S) for one in archived_at(clock, step_s=step_s, archive=archive)]
    finally:
        archive.end()
    date_back(archive.home / "lake" / "events")
    yield SetBack(server, archive.home, accepted)
    server.stop()


def archived_at(clock: MovingClock, *, step_s: int, archive: ArchiveProcess) -> list[Accepted]:
    """Some events, which its archive takes in with its clock set so."""
    clock.step(step_s)
    before = len(rows_of(archive.home))
    accepted = asyncio.run(append_many(archive.log, home=archive.home, count=SOME))
    archive.until(lambda: len(rows_of(archive.home)) == before + SOME, what="all is archived")
    return accepted


def date_back(table: Path) -> None:
    """Files were dated by the kernel, whose clock was right all the time; those of a driver would be dated by the same clock."""
    for path in (table / "_delta_log").glob("0*.json"):
        made_s = entry_in(path).committed_at_ms / 1000
        os.utime(path, (made_s, made_s))


def entry_in(path: Path) -> LogEntry:
    return parse_entry(path.read_bytes(), version=int(path.stem))


def entries_of(table: Path) -> list[LogEntry]:
    return [entry_in(path) for path in sorted((table / "_delta_log").glob("0*.json"))]


@pytest.fixture
def world(spark: SparkSession, set_back: SetBack, tmp_path: Path) -> Iterator[ArchiveWorld]:
    shutil.copytree(set_back.home / "lake", tmp_path / "home" / "lake")
    found = ArchiveWorld(spark, set_back.server, tmp_path / "home", shards=4, accepted=set_back.accepted)
    yield found
    found.close()


def goes_by_the_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its newest commit is that of the latest time."""

    def latest(table: CommittedTable, *, start: int) -> Commit | None:
        found = [commit for entry in table._log.downwards(start=start) if (commit := commit_in(entry)) is not None]
        return max(found, key=lambda commit: commit.committed_at_ms, default=None)

    monkeypatch.setattr(CommittedTable, "_from_log", latest)


@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    ("breaks", "is_faithful"),
    [
        # The first: what the next archive archives is off the log, and of no use to another one.
        pytest.param(goes_by_the_clock, False, id="control", marks=pytest.mark.control("E18")),
        pytest.param(nothing, True, id="real", marks=pytest.mark.fault("E18")),
    ],
)
def test_an_archive_whose_clock_went_back_is_continued_from_its_newest_commit(
    world: ArchiveWorld, monkeypatch: pytest.MonkeyPatch, breaks: Breaks, is_faithful: bool
) -> None:
    breaks(monkeypatch)
    times = [entry.committed_at_ms for entry in entries_of(world.table)]
    assert min(later - earlier for earlier, later in itertools.pairwise(times)) < -1000 * HOUR_S / 2

    world.append(3)
    with contextlib.suppress(WriteSkipped):
        world.drain()

    assert (world.faults() == []) is is_faithful
    batches = [commit.batch for entry in entries_of(world.table) if (commit := commit_in(entry)) is not None]
    assert batches == sorted(set(batches))


@pytest.mark.fault("E18")
def test_a_version_is_found_by_its_time_also_after_the_clock_went_back(world: ArchiveWorld) -> None:
    history = world.spark.sql(f"DESCRIBE HISTORY delta.`{world.table}`").orderBy("version").collect()
    times = [row.timestamp for row in history]

    assert times == sorted(set(times))
    for row in (history[1], history[-1]):
        assert rows_at(world, timestampAsOf=row.timestamp.isoformat(sep=" ")) == rows_at(world, versionAsOf=row.version)
    assert rows_at(world, timestampAsOf=times[-1].isoformat(sep=" ")) == 2 * SOME


def rows_at(world: ArchiveWorld, **when: Any) -> int:
    return world.spark.read.format("delta").options(**when).load(str(world.table)).count()
