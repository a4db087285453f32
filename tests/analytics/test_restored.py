"""A table that somebody restores is filled again, whenever that happened and whatever is left of its log: no row is lost or twice."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from delta.tables import DeltaTable
from pyspark.sql import SparkSession

from analytics import archive as archive_module
from analytics import versions
from analytics.archive import Archive
from analytics.commits import Commit, CommittedTable
from infra.settings import LogSettings
from tests.analytics.conftest import OpenArchive, append
from tests.analytics.test_refill import declare_and_spill
from tests.events import an_event


class World:
    """A table with two batches of five events that the log still has, since a group has not settled them."""

    def __init__(self, open_archive: OpenArchive, log: LogSettings, home: Path, location: str, spark: SparkSession) -> None:
        self.open_archive, self.log, self.home, self.location, self.spark = open_archive, log, home, location, spark
        declare_and_spill(log, home, spills=False)
        self.archive: Archive = open_archive()
        self.last: Commit = self.archive.start()
        self.archive_five()
        self.first_version = self.newest_version()
        self.archive_five()

    def newest_version(self) -> int:
        return versions.read_history(Path(self.location)).newest

    def append_five(self) -> None:
        append(self.log, self.home, *(an_event() for _ in range(5)))

    def archive_five(self) -> None:
        self.append_five()
        self.last = self.archive.run_batch(self.last)

    def restore(self, version: int) -> None:
        DeltaTable.forPath(self.spark, self.location).restoreToVersion(version)

    def state(self) -> tuple[int, int, int, dict[str, int]]:
        """Rows, ids, losses, and accepted events with a row by their source, when the archive has come to rest."""
        for _ in range(3):
            self.last = self.archive.run_batch(self.last)
        rows = self.spark.read.format("delta").load(self.location)
        return rows.count(), rows.select("id").distinct().count(), self.last.totals.lost, self.last.owners_after

    def start_again(self) -> None:
        self.archive = self.open_archive()
        self.last = self.archive.start()


@pytest.fixture
def world(open_archive: OpenArchive, log: LogSettings, home: Path, location: str, spark: SparkSession) -> World:
    return World(open_archive, log, home, location, spark)


def at(place: str, act: Callable[[], None]) -> Callable[[str], None]:
    """Does it when the archive comes there for the first time."""
    left = [act]

    def reach(name: str) -> None:
        if name == place and left:
            left.pop()()

    return reach


@pytest.mark.fault("E9")
@pytest.mark.control("E9")
def test_a_table_that_is_restored_while_a_batch_is_written_is_filled_again_unless_nobody_looks_beneath_it(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.append_five()
    with monkeypatch.context() as meanwhile:
        meanwhile.setattr(archive_module, "reach", at("archive.before_commit", lambda: world.restore(world.first_version)))
        world.last = world.archive.run_batch(world.last)
    with monkeypatch.context() as broken:
        broken.setattr(CommittedTable, "_or_what_was_restored", lambda _, commit, **__: commit)
        world.start_again()
        assert world.state()[:3] == (10, 10, 0)  # Five are missing, and nobody says so.

    world.start_again()

    assert world.state() == (15, 15, 0, {"demo:github": 15})


def test_the_same_without_a_restart(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    world.append_five()
    with monkeypatch.context() as meanwhile:
        meanwhile.setattr(archive_module, "reach", at("archive.before_commit", lambda: world.restore(world.first_version)))
        world.last = world.archive.run_batch(world.last)

    assert world.state() == (15, 15, 0, {"demo:github": 15})


@pytest.mark.fault("E9")
def test_a_version_whose_commits_are_cleaned_up_is_known_by_its_rows(world: World) -> None:
    DeltaTable.forPath(world.spark, world.location).optimize().executeCompaction()
    versions.write_checkpoint(world.spark, location=world.location)
    compacted = world.newest_version()
    world.archive_five()
    versions.remove_below(Path(world.location), version=compacted)
    world.archive.table._log.forget_cache()

    world.restore(compacted)

    assert world.state() == (15, 15, 0, {"demo:github": 15})
