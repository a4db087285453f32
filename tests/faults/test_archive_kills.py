"""Archives as processes, of which one after the other is killed: the Python process, the JVM, what reads for it, an executor."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from infra.running.embedded import EmbeddedServer
from tests.faults.archive_process import REAL, ArchiveProcess, append_many
from tests.faults.archive_world import STEPS
from tests.faults.checker import Accepted, faults, rows_of
from tests.ports import free_port

MOVES_FIRST = "tests.faults.broken.archive_moves_first"
READS_ONCE = "tests.faults.broken.archive_reads_once"
WATCHES_NO_DRIVER = "tests.faults.broken.archive_watches_no_driver"
CLUSTER = "local-cluster[2,1,1024]"


@pytest.fixture
def server(tmp_path: Path) -> Iterator[EmbeddedServer]:
    found = EmbeddedServer(tmp_path / "log", free_port(), password="a-test-password")
    found.start()
    yield found
    found.stop()


@pytest.fixture
def archive(server: EmbeddedServer, tmp_path: Path, pytestconfig: pytest.Config) -> Iterator[ArchiveProcess]:
    master = CLUSTER if pytestconfig.getoption("--full-size") else "local[2]"
    found = ArchiveProcess(tmp_path / "home", log_url=server.url, ARCHIVE__MASTER=master, ARCHIVE__OPS_PORT="0", ARCHIVE__INTERVAL_MS="100")
    yield found
    found.end()


def append(archive: ArchiveProcess, *, count: int) -> list[Accepted]:
    return asyncio.run(append_many(archive.log, home=archive.home, count=count))


def rows_in(archive: ArchiveProcess) -> int:
    return len(rows_of(archive.home))


@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    ("module", "is_faithful"),
    [
        pytest.param(REAL, True, id="real", marks=[pytest.mark.fault("E2"), pytest.mark.fault("E17")]),
        pytest.param(READS_ONCE, False, id="control", marks=pytest.mark.control("E2")),
    ],
)
def test_who_reads_is_killed_and_the_driver_hangs_and_the_archive_goes_on_by_itself(
    archive: ArchiveProcess, tmp_path: Path, times: int, module: str, is_faithful: bool
) -> None:
    whom = "kill_jvm" if times > 1 else "kill"  # the executor's JVM, on a cluster
    accepted = append(archive, count=50)
    process = archive.start(module, failpoint=f"archive.mid_write={whom}:{tmp_path / 'once'}")
    archive.until(archive.is_ready, what="it goes on after its reader was killed")
    assert (tmp_path / "once").exists()
    if is_faithful:
        accepted += append(archive, count=20)
        os.kill(archive.jvm(), signal.SIGSTOP)
        accepted += append(archive, count=20)
        time.sleep(3)  # what is waited for is that nothing happens
        os.kill(archive.jvm(), signal.SIGCONT)
        archive.until(lambda: rows_in(archive) >= len(accepted), what="all is archived")

    assert (faults(accepted, rows=rows_of(archive.home)) == []) is is_faithful
    assert process.poll() is None


@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    ("module", "is_faithful"),
    [
        pytest.param(REAL, True, id="real", marks=pytest.mark.fault("E17")),
        pytest.param(WATCHES_NO_DRIVER, False, id="control", marks=pytest.mark.control("E17")),
    ],
)
def test_a_jvm_that_is_out_of_memory_ends_the_archive_and_the_next_one_goes_on(
    archive: ArchiveProcess, times: int, module: str, is_faithful: bool
) -> None:
    if times == 1:
        pytest.skip("at full size only; tests/analytics/test_main.py kills the JVM of an archive")
    process = archive.start(module)
    archive.until(archive.is_ready, what="it is ready")
    os.kill(archive.jvm(), signal.SIGKILL)  # as the kernel does when there is no memory
    accepted = append(archive, count=10)
    try:
        ended = process.wait(30)
    except subprocess.TimeoutExpired:
        ended = None
    assert (ended == 1) is is_faithful
    if is_faithful:
        archive.start(REAL)
        archive.until(lambda: rows_in(archive) >= 10, what="the next one has archived all")
        assert faults(accepted, rows=rows_of(archive.home)) == []


KILLS = [
    *((step, whom) for step in STEPS for whom in ("kill", "kill_jvm")),
    *((step, whom) for step in ("archive.mid_read", "archive.mid_write") for whom in ("kill_jvm", "kill_archive")),
]


@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    ("module", "is_faithful", "step", "whom"),
    [
        *(pytest.param(REAL, True, step, whom, id=f"{step}-{whom}", marks=pytest.mark.fault("E1")) for step, whom in KILLS),
        pytest.param(MOVES_FIRST, False, "archive.before_commit", "kill", id="control", marks=pytest.mark.control("E1")),
    ],
)
def test_an_archive_whose_driver_is_killed_at_any_step_loses_and_repeats_nothing(
    spark: SparkSession, server: EmbeddedServer, tmp_path: Path, times: int, module: str, is_faithful: bool, step: str, whom: str
) -> None:
    if times == 1:
        pytest.skip("at full size only; test_archive_steps.py lets it die at each step without a process")
    archive = ArchiveProcess(tmp_path / "home", log_url=server.url, ARCHIVE__OPS_PORT="0")
    accepted = append(archive, count=50)

    archive.run_until_killed(module, failpoint=f"{step}={whom}")
    accepted += append(archive, count=10)
    archive.drain(spark)

    assert (faults(accepted, rows=rows_of(archive.home)) == []) is is_faithful
