"""A replica takes over from the log's primary in the middle of a batch: every event has its row, once, whatever the replica lacks."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.contracts.clusters import wait_until
from tests.contracts.replicas import ReplicatedServer
from tests.contracts.sentinels import SentinelSet
from tests.events import an_event
from tests.faults.archive_world import ArchiveWorld, at_step
from tests.faults.breaking import break_script
from tests.faults.test_archive_input import nothing, until_drained
from tests.faults.test_failover import watched as watched

Breaks = Callable[[pytest.MonkeyPatch], object]


@pytest.fixture
def world(spark: SparkSession, watched: SentinelSet, tmp_path: Path) -> Iterator[ArchiveWorld]:
    found = ArchiveWorld(spark, watched, tmp_path / "home")
    yield found
    found.close()


def replicas_of(watched: SentinelSet) -> list[ReplicatedServer]:
    return [server for server in watched.servers if server is not watched.primary]


def fail_over(watched: SentinelSet) -> None:
    """kill -9 of the primary; returns when the sentinels have agreed on another one."""
    old = watched.primary
    old.kill()
    watched.wait_for_another_primary(old)


@pytest.mark.fault("E13")
@pytest.mark.parametrize(
    "step",
    [pytest.param("archive.planned", id="between look and read"), pytest.param("archive.before_move", id="between read and move")],
)
def test_a_replica_that_takes_over_in_mid_batch_costs_no_event_and_repeats_none(
    world: ArchiveWorld, watched: SentinelSet, step: str
) -> None:
    archive = world.open()
    world.append(3)
    last = world.drain(archive)
    world.append(5)
    wait_until(lambda: all(replica.has_all_of(watched.primary) for replica in replicas_of(watched)))

    with at_step(step, lambda: fail_over(watched)):
        last = until_drained(world, archive, last=last)
    world.append(2)
    last = until_drained(world, archive, last=last)

    assert (world.faults(), last.totals.lost) == ([], 0)


def knows_no_other_life(monkeypatch: pytest.MonkeyPatch) -> None:
    """Numbers go on where the replica thinks that they are, as if it were the server that the archive knew."""
    break_script(monkeypatch, "begin", ("if known[1] == replication_id and known[2] then", "if known[2] then"))


@pytest.mark.parametrize(
    ("breaks", "is_faithful"),
    [
        pytest.param(nothing, True, id="real", marks=pytest.mark.fault("E13")),
        pytest.param(knows_no_other_life, False, id="control", marks=pytest.mark.control("E13")),
    ],
)
def test_what_was_archived_and_the_replica_lacks_has_one_row_when_it_is_sent_again(
    world: ArchiveWorld, watched: SentinelSet, monkeypatch: pytest.MonkeyPatch, breaks: Breaks, is_faithful: bool
) -> None:
    breaks(monkeypatch)
    archive = world.open()
    world.append(3)
    last = world.drain(archive)
    cut_off(watched)
    in_doubt = [an_event() for _ in range(3)]
    world.append_these(*in_doubt)

    def take_over() -> None:
        old = watched.primary
        old.kill()
        signal_all(replicas_of(watched), signal.SIGCONT)
        primary = watched.wait_for_another_primary(old)
        assert in_doubt[0].id not in str(primary.ask("XRANGE", world.keys.events(0, "default"), "-", "+"))
        world.append(5)  # more than it lacks, before the archive looks

    with at_step("archive.before_move", take_over):
        last = until_drained(world, archive, last=last)
    world.append_these(*in_doubt)
    last = until_drained(world, archive, last=last)

    assert (world.faults() == []) is is_faithful
    assert last.totals.lost == 0 or not is_faithful


def cut_off(watched: SentinelSet) -> None:
    """The replicas hang, and the kernel keeps nothing for them."""
    wait_until(lambda: all(replica.has_all_of(watched.primary) for replica in replicas_of(watched)))
    signal_all(replicas_of(watched), signal.SIGSTOP)
    watched.primary.ask("CLIENT KILL", "TYPE", "replica")


def signal_all(servers: list[ReplicatedServer], how: signal.Signals) -> None:
    for server in servers:
        os.kill(server.pid, how)
