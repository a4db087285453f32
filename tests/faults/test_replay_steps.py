"""A replay, and the refill of what is owed, are killed at each of their steps: every event reaches the group's stream once.

Workers settle meanwhile. The controls are scripts that do not write down, or do not ask, how far they have come.
"""

from __future__ import annotations

import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from analytics.refill import Refill
from analytics.replayer import Replayer
from analytics.settings import ArchiveSettings, table_location
from infra.failpoints import VARIABLE
from infra.running.embedded import EmbeddedServer
from infra.streams.owed import Owed
from infra.streams.replays import Replay, Replays
from infra.telemetry import Telemetry
from tests.analytics.conftest import append
from tests.analytics.conftest import telemetry as telemetry
from tests.analytics.test_refill import declare_and_spill, owed_now
from tests.analytics.test_replay import taken
from tests.events import an_event
from tests.faults.archive_process import REAL, ArchiveProcess
from tests.infra.running.processes import command_environment, until
from tests.ports import free_port

pytestmark = [pytest.mark.timeout(600), pytest.mark.fault("REPLAY")]
APPENDS = ("before_append", "after_append")


@pytest.fixture
def server(tmp_path: Path) -> Iterator[EmbeddedServer]:
    server = EmbeddedServer(tmp_path / "log", free_port(), password="a-test-password")
    server.start()
    yield server
    server.stop()


@pytest.fixture
def archive(server: EmbeddedServer, tmp_path: Path) -> ArchiveProcess:
    return ArchiveProcess(tmp_path / "installation", log_url=server.url)


def start_replay(archive: ArchiveProcess, *arguments: str, failpoint: str = "") -> subprocess.Popen[str]:
    environment = {**command_environment(archive.home, LOG__URL=archive.log.url), VARIABLE: failpoint}
    command = [sys.executable, "-m", "analytics.replay", *arguments]
    return subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def known(archive: ArchiveProcess) -> list[Replay]:
    replays = Replays.open(archive.log, home=archive.home)
    try:
        return replays.all()
    finally:
        replays.close()


def resume(archive: ArchiveProcess, *, spark: SparkSession, replay: Replay) -> None:
    """In this process, since it is not the one that dies."""
    replays = Replays.open(archive.log, home=archive.home)
    location = table_location(ArchiveSettings(), home=archive.home, table="events")
    try:
        Replayer(spark, location, archive.log, archive.home, replays).run(replay)
    finally:
        replays.close()


def replayed(archive: ArchiveProcess) -> Counter[str]:
    return Counter(event.id for _, event, mark in taken(archive.log, archive.home) if mark)


def test_a_replay_that_dies_at_any_step_hands_nothing_twice(
    spark: SparkSession, archive: ArchiveProcess, tmp_path: Path, times: int
) -> None:
    """Who is killed: the command itself, beside whose processes another one goes on at once; at full size its JVM and its readers too."""
    events = [an_event() for _ in range(120 * times)]
    append(archive.log, archive.home, *events)
    taken(archive.log, archive.home)
    archive.drain(spark)
    whom = ("kill_archive", "kill_jvm", "kill") if times > 1 else ("kill_archive",)
    steps = [(step, name) for name in whom for step in (APPENDS if times > 1 else ("after_append",))]

    arguments = ["--group", "g", "--json"]
    for number, (step, name) in enumerate(steps):
        process = start_replay(archive, *arguments, failpoint=f"replay.{step}={name}:{tmp_path / f'fuse-{number}'}")
        _, said = process.communicate(timeout=180)
        assert process.returncode == (-signal.SIGKILL if name == "kill_archive" else 3), said
        (replay,) = known(archive)
        assert name == "kill_archive" or f"hooklake replay --resume {replay.id}" in said
        arguments = ["--resume", replay.id, "--json"]
    assert not replay.is_done
    resume(archive, spark=spark, replay=replay)

    assert replayed(archive) == Counter(event.id for event in events)
    assert known(archive)[0].is_done


def test_an_archive_that_dies_while_it_gives_back_gives_nothing_twice(
    spark: SparkSession, archive: ArchiveProcess, telemetry: Telemetry, times: int
) -> None:
    declare_and_spill(archive.log, archive.home, spills=False)
    events = [an_event() for _ in range(120 * times)]
    append(archive.log, archive.home, *events)
    archive.drain(spark)
    declare_and_spill(archive.log, archive.home, spills=True)
    assert owed_now(archive.log, archive.home) == len(events)

    for step in APPENDS if times > 1 else ("after_append",):
        process = archive.start(REAL, failpoint=f"refill.{step}=kill")
        try:
            until(lambda: "could not be given back" in archive.said(), what="a process that gave back has died", within_s=180)
        finally:
            process.kill()
            process.wait()
    found = Counter(event.id for _, event, _ in taken(archive.log, archive.home))
    found += given_back(archive, spark=spark, telemetry=telemetry)

    assert found == Counter(event.id for event in events)


def given_back(archive: ArchiveProcess, *, spark: SparkSession, telemetry: Telemetry) -> Counter[str]:
    """What a group is handed while the next archive gives back all that it is owed."""
    owed, found = Owed.open(archive.log, home=archive.home), Counter[str]()
    location = table_location(ArchiveSettings(), home=archive.home, table="events")
    refill = Refill(lambda: spark.read.format("delta").load(location), owed, archive.log, archive.home, telemetry)
    while owed.creditors():
        refill.step()
        found += Counter(event.id for _, event, _ in taken(archive.log, archive.home))
    owed.close()
    return found
