"""Tables that are skipped, rolled back, truncated, filled up or written by two: noticed, and healed from the log or said."""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from analytics import archive as archives
from analytics.commits import Commit, CommittedTable
from analytics.delta_log import DeltaLog, LogEntry
from analytics.plan import Range
from infra.running.embedded import EmbeddedServer
from infra.streams.archive_lease import ArchiveLease
from infra.streams.connection import open_blocking
from infra.streams.positions import Position, StreamName
from schemas.errors import NotTheArchive, TableUnavailable
from tests.faults.archive_world import ArchiveWorld, at_step
from tests.faults.disks import enlarge, small_disk, small_disk_over, why_no_mounts
from tests.faults.test_disks import fill
from tests.ports import free_port

Breaks = Callable[[pytest.MonkeyPatch], object]


def nothing(_: pytest.MonkeyPatch) -> None:
    """The archive as it is."""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedServer]:
    found = EmbeddedServer(tmp_path_factory.mktemp("log"), free_port(), password="a-test-password")
    found.start()
    yield found
    found.stop()


@pytest.fixture
def world(spark: SparkSession, server: EmbeddedServer, tmp_path: Path) -> Iterator[ArchiveWorld]:
    found = ArchiveWorld(spark, server, tmp_path / "home")
    yield found
    found.call("FLUSHALL")  # A server for all tests here, and a log for each.
    found.close()


def moves_where_it_meant_to(monkeypatch: pytest.MonkeyPatch) -> None:
    def believe(_: CommittedTable, entry: LogEntry, *, commit: Commit) -> Commit:
        return replace(commit, rows=entry.rows, committed_at_ms=entry.committed_at_ms)

    monkeypatch.setattr(CommittedTable, "_read_back", believe)


@pytest.mark.parametrize(
    ("breaks", "is_faithful"),
    [
        pytest.param(nothing, True, id="real", marks=[pytest.mark.fault("E5"), pytest.mark.fault("E10")]),
        pytest.param(moves_where_it_meant_to, False, id="control", marks=[pytest.mark.control("E5"), pytest.mark.control("E10")]),
    ],
)
def test_a_batch_that_landed_unheard_and_is_tried_again_with_more_rows_moves_the_group_only_to_what_landed(
    world: ArchiveWorld, monkeypatch: pytest.MonkeyPatch, breaks: Breaks, is_faithful: bool
) -> None:
    breaks(monkeypatch)
    archive = world.open()
    last = archive.start()
    world.append(3)
    with at_step("archive.before_read_back", lost_response), pytest.raises(TableUnavailable):
        archive.run_batch(last)
    world.append(4)

    world.drain(archive, last=last)

    assert (world.faults() == []) is is_faithful


def lost_response() -> None:
    raise OSError("the commit is made, and nobody hears of it")


def remove_the_newest(table: Path) -> None:
    newest = sorted((table / "_delta_log").glob("0*.json"))[-1]
    newest.unlink()
    newest.with_name(f".{newest.name}.crc").unlink(missing_ok=True)


def bring_the_backup_back(table: Path) -> None:
    shutil.rmtree(table)
    (table.parent / "backup").rename(table)


def continues_from_the_group(monkeypatch: pytest.MonkeyPatch) -> None:
    """Another memory than the table: where the log says that the archive has come."""
    really = CommittedTable.newest_commit

    def newest(table: CommittedTable, *, run: str) -> Commit:
        return replace(really(table, run=run), positions=dict(MARKS), lives={})

    monkeypatch.setattr(CommittedTable, "newest_commit", newest)


MARKS: dict[StreamName, Position] = {}


@pytest.mark.parametrize(
    ("harm", "breaks", "is_faithful"),
    [
        pytest.param(remove_the_newest, nothing, True, id="removed", marks=pytest.mark.fault("E6")),
        pytest.param(bring_the_backup_back, nothing, True, id="older", marks=pytest.mark.fault("E6")),
        pytest.param(remove_the_newest, continues_from_the_group, False, id="control", marks=pytest.mark.control("E6")),
    ],
)
def test_a_table_that_has_lost_its_newest_entries_is_filled_again_from_the_log(
    world: ArchiveWorld, monkeypatch: pytest.MonkeyPatch, harm: Callable[[Path], None], breaks: Breaks, is_faithful: bool
) -> None:
    world.keep_entries()
    world.append(3)
    world.drain()
    shutil.copytree(world.table, world.table.parent / "backup")
    world.append(4)
    last = world.drain()
    MARKS.clear()
    MARKS.update(last.positions)
    harm(world.table)
    DeltaLog(world.spark, location=str(world.table)).forget_cache()
    breaks(monkeypatch)

    last = world.drain()

    assert (world.faults() == []) is is_faithful
    assert last.totals.lost == 0


def sees_no_restore(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(CommittedTable, "is_restored", lambda _: False)


@pytest.mark.parametrize(
    ("breaks", "is_faithful"),
    [
        pytest.param(nothing, True, id="real", marks=pytest.mark.fault("E9")),
        pytest.param(sees_no_restore, False, id="control", marks=pytest.mark.control("E9")),
    ],
)
def test_a_table_that_is_restored_beneath_a_running_archive_is_filled_again_and_what_the_log_lacks_is_counted(
    world: ArchiveWorld, monkeypatch: pytest.MonkeyPatch, breaks: Breaks, is_faithful: bool
) -> None:
    breaks(monkeypatch)
    archive = world.open()
    world.append(2)
    last = world.drain(archive)  # trimmed: the log has these two no more
    world.keep_entries()
    world.append(3)
    last = world.drain(archive, last=last)
    restore(world, version=1)
    world.append(1)
    last = world.drain(archive, last=last)
    assert (world.faults() == []) is is_faithful
    if not is_faithful:
        return

    restore(world, version=0)
    last = world.drain()  # another run, which finds the table so

    assert last.totals.lost == 2
    assert [fault for fault in world.faults() if "not in the table" in fault] == world.faults()[:2]


def restore(world: ArchiveWorld, *, version: int) -> None:
    world.spark.sql(f"RESTORE TABLE delta.`{world.table}` TO VERSION AS OF {version}")


@pytest.mark.parametrize(
    ("is_asked", "is_faithful"),
    [
        pytest.param(True, True, id="real", marks=pytest.mark.fault("E7")),
        pytest.param(False, False, id="control", marks=pytest.mark.control("E7")),
    ],
)
def test_an_archive_whose_lease_another_one_has_taken_commits_and_counts_nothing(
    world: ArchiveWorld, tmp_path: Path, is_asked: bool, is_faithful: bool
) -> None:
    lease = ArchiveLease(open_blocking(world.log, home=world.home), keys=world.keys, lease_ms=200)
    lease.take()
    world.options = {"check_lease": lease.check} if is_asked else {}
    archive = world.open()
    last = archive.start()
    world.append(3)
    other = ArchiveWorld(world.spark, world.server, tmp_path / "other", accepted=list(world.accepted))
    with ArchiveLease.open(world.log, home=world.home):
        other.drain()
        refused = False
        try:
            last = archive.run_batch(last)
        except NotTheArchive:
            refused = True

    assert other.faults() == []
    assert (refused, last.totals.lost) == ((True, 0) if is_faithful else (False, 3))
    lease.end()
    other.close()


def moves_although_nothing_was_written(monkeypatch: pytest.MonkeyPatch) -> None:
    really = archives.Archive._archive

    def archive_or_move(archive: archives.Archive, ranges: Sequence[Range], *, commit: Commit, last: Commit) -> Commit:
        try:
            return really(archive, ranges, commit=commit, last=last)
        except TableUnavailable:
            archives.move(archive.log, archives.taking_in(commit, [(one, None) for one in ranges], now_ms=archive.clock.now_ms()))
            archive.log.trim()
            raise

    monkeypatch.setattr(archives.Archive, "_archive", archive_or_move)


@pytest.mark.parametrize(
    ("breaks", "is_faithful"),
    [
        pytest.param(nothing, True, id="real", marks=pytest.mark.fault("E11")),
        pytest.param(moves_although_nothing_was_written, False, id="control", marks=pytest.mark.control("E11")),
    ],
)
def test_a_full_disk_beneath_the_table_stops_the_archive_until_there_is_room(
    world: ArchiveWorld, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, breaks: Breaks, is_faithful: bool
) -> None:
    if reason := why_no_mounts():
        pytest.skip(reason)
    breaks(monkeypatch)
    with small_disk(tmp_path / "disk", size="2m") as of_lake:
        (world.home / "lake").symlink_to(of_lake)
        world.append(2)
        archive = world.open()
        last = world.drain(archive)
        world.append(3)
        fill(of_lake / "filler")
        for _ in range(2):
            with contextlib.suppress(TableUnavailable):
                last = archive.run_batch(last)
        (of_lake / "filler").unlink()
        world.append(1)

        world.drain(archive, last=last)

        assert (world.faults() == []) is is_faithful


@pytest.mark.parametrize(
    ("breaks", "is_faithful"),
    [
        pytest.param(nothing, True, id="real", marks=pytest.mark.fault("E11")),
        pytest.param(moves_although_nothing_was_written, False, id="control", marks=pytest.mark.control("E11")),
    ],
)
def test_a_full_disk_beneath_what_spark_shuffles_fails_the_batch_until_there_is_room(
    world: ArchiveWorld, monkeypatch: pytest.MonkeyPatch, breaks: Breaks, is_faithful: bool
) -> None:
    """It may be another disk than that of the tables. Every batch needs it, one that is compared with the table before it writes."""
    if reason := why_no_mounts():
        pytest.skip(reason)
    breaks(monkeypatch)
    world.append(2)
    archive = world.open()
    last = world.drain(archive)
    with small_disk_over(scratch_of(world.spark), size="1m") as scratch:
        fill(scratch / "filler")
        world.append(3)
        with pytest.raises(TableUnavailable, match="No space left on device"):
            archive.run_batch(last)
        world.call("HDEL", world.keys.ledger(0), "incarnation")  # what a restart of the log comes to
        world.append(1)
        with pytest.raises(TableUnavailable, match="No space left on device"):
            archive.run_batch(last)
        enlarge(scratch, size="64m")

        last = world.drain(archive, last=last)

    assert (world.faults() == []) is is_faithful
    assert last.totals.lost == 0 or not is_faithful


def scratch_of(spark: SparkSession) -> Path:
    """Where this Spark keeps what it sorts and shuffles."""
    jvm: Any = spark._jvm
    (directory,) = jvm.org.apache.spark.SparkEnv.get().blockManager().diskBlockManager().localDirs()
    return Path(directory.getPath())
