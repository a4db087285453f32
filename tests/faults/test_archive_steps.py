"""An archive that dies between any two of its steps, or whose disks lose power there: nothing is lost, nothing is twice in the table."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from analytics import archive as archives
from analytics.commits import Commit, CommittedTable
from analytics.delta_log import DeltaLog
from infra.running.embedded import EmbeddedServer
from infra.streams.ranges import ArchiveLog
from schemas.errors import TornTable
from tests.faults.archive_world import STEPS, ArchiveWorld
from tests.faults.disks import Disk, disk, why_no_mounts
from tests.ports import free_port

TELLING = ("archive.before_commit", "archive.before_read_back", "archive.before_move", "archive.between_moves", "archive.after_trim")


def a_server(directory: Path) -> EmbeddedServer:
    server = EmbeddedServer(directory, free_port(), password="a-test-password")
    server.start()
    return server


@pytest.fixture
def world(spark: SparkSession, tmp_path: Path) -> Iterator[ArchiveWorld]:
    server = a_server(tmp_path / "log")
    found = ArchiveWorld(spark, server, tmp_path / "home", shards=2)
    yield found
    found.close()
    server.stop()


def move_first(log: ArchiveLog, table: CommittedTable, *, rows: DataFrame, commit: Commit, **_: object) -> Commit:
    kept = rows.localCheckpoint(eager=True)
    archives.move(log, commit)
    log.trim()
    archives.reach("archive.before_commit")  # type: ignore[attr-defined]  # looked up there, since the test replaces it
    return table.append(kept, commit=commit)


@pytest.mark.parametrize(
    ("breaks", "is_faithful"),
    [
        pytest.param({}, True, id="real", marks=pytest.mark.fault("E1")),
        pytest.param({"commit_then_move": move_first}, False, id="control", marks=pytest.mark.control("E1")),
    ],
)
def test_a_run_that_dies_at_any_step_loses_and_repeats_nothing(
    world: ArchiveWorld, monkeypatch: pytest.MonkeyPatch, times: int, breaks: dict[str, Any], is_faithful: bool
) -> None:
    for name, broken in breaks.items():
        monkeypatch.setattr(archives, name, broken)
    steps = STEPS if times > 1 else TELLING
    for step in steps if is_faithful else ("archive.before_commit",):
        world.append(10)
        world.die_at(step)

    last = world.drain()

    assert (world.faults() == []) is is_faithful
    assert (last.totals.lost == 0) is is_faithful


AFTER_THE_COMMIT = STEPS[3:]
SOME = ("archive.before_sync", "archive.after_trim")


def no_sync(*_: object, **__: object) -> None:
    pass


@pytest.fixture
def mounts() -> None:
    if reason := why_no_mounts():
        pytest.skip(reason)


@pytest.mark.usefixtures("mounts")
@pytest.mark.parametrize(
    ("is_synced", "is_log_cut"),
    [
        pytest.param(True, False, id="lake", marks=pytest.mark.fault("E3")),
        pytest.param(False, False, id="lake-control", marks=pytest.mark.control("E3")),
        pytest.param(True, True, id="both", marks=pytest.mark.fault("E4")),
        pytest.param(False, True, id="both-control", marks=pytest.mark.control("E4")),
    ],
)
@pytest.mark.timeout(300)
def test_a_power_cut_at_any_step_from_the_commit_on_takes_nothing_that_the_log_has_let_go(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, times: int, is_synced: bool, is_log_cut: bool
) -> None:
    if not is_synced:
        for name in ("sync", "sync_name"):
            monkeypatch.setattr(DeltaLog, name, no_sync)
    steps = AFTER_THE_COMMIT if times > 1 else SOME[-1:] if is_log_cut else SOME
    with disk(tmp_path) as own_disk, ExitStack() as stack:
        server = a_server((own_disk.mounted if is_log_cut else tmp_path) / "log")
        stack.callback(server.stop)
        world = ArchiveWorld(spark, server, tmp_path / "home")
        stack.callback(world.close)
        lake_on(own_disk.mounted, home=world.home)
        broken = [
            step for step in (steps if is_synced else steps[-1:]) if not survives(world, step, own_disk=own_disk, is_log_cut=is_log_cut)
        ]

    assert (broken == []) is is_synced, broken


def lake_on(folder: Path, *, home: Path) -> None:
    (folder / "lake").mkdir(exist_ok=True)
    (home / "lake").symlink_to(folder / "lake")


def survives(world: ArchiveWorld, step: str, *, own_disk: Disk, is_log_cut: bool) -> bool:
    """Whether all that was accepted is in the table once, when the next archive finds what the disk had at that step."""
    world.append(5)
    world.die_at(step)
    with own_disk.after_a_power_cut() as left:
        server = a_server(left / "log") if is_log_cut else None
        after = ArchiveWorld(world.spark, server or world.server, own_disk.image.parent / f"after-{step}", accepted=list(world.accepted))
        lake_on(left, home=after.home)
        DeltaLog(world.spark, location=str(after.table)).forget_cache()
        try:
            last = after.drain()
            return after.faults() == [] and last.totals.lost == 0
        except TornTable:
            return False
        finally:
            after.close()
            if server is not None:
                server.kill()
