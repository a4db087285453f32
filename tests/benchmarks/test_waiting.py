from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from infra.running.embedded import EmbeddedServer
from schemas.event import Priority
from tests.benchmarks.filling import BODY_BYTES, a_body
from tests.benchmarks.ours import a_client, streams_of, unsettled
from tests.benchmarks.racing import a_server, end
from tests.benchmarks.rates import CannotMeasure
from tests.benchmarks.trickle import Trickle
from tests.benchmarks.waiting import FLOOD, Waiting, all_waiting, p99_wait_ms
from tests.benchmarks.waits import Waits, due_ns, stamped_body
from tests.infra.running.processes import until

URGENT = Trickle(60, 200.0, tenant="b", priority=Priority.URGENT)


def test_a_body_says_when_its_event_was_due_and_is_as_large_as_any_other() -> None:
    assert due_ns(stamped_body(1_234_567)) == 1_234_567
    assert len(stamped_body(1_234_567)) == BODY_BYTES
    assert due_ns(a_body()) is None


def test_only_stamped_events_are_noted_with_the_time_since_they_were_due(tmp_path: Path) -> None:
    waits = Waits(tmp_path / "waits")

    waits.note(a_body())
    waits.note(stamped_body(time.monotonic_ns() - 5_000_000))

    [wait_ms] = Waits(tmp_path / "waits").read_ms()
    assert 5 <= wait_ms < 5000


@pytest.mark.parametrize(("elapsed_ms", "due"), [(-1, 0), (0, 1), (4, 1), (5, 2), (299, 60), (10_000, 60)], ids=lambda value: str(value))
def test_events_are_due_at_a_steady_rate_until_all_are(elapsed_ms: int, due: int) -> None:
    assert URGENT.due_by(elapsed_ms * 1_000_000) == due


def test_at_full_size_there_are_enough_samples_and_the_flood_is_as_dense_as_it_is_said_to_be() -> None:
    found = {waiting.name: waiting for waiting in all_waiting(scale=1)}

    assert {waiting.events - waiting.left_out for waiting in found.values()} == {1000}
    assert (flood := found["tenant-in-flood"].flood) is not None
    assert flood.count == found["tenant-behind-flood"].backlog == FLOOD * found["tenant-alone"].measured.count
    assert flood.lasts_s == found["tenant-alone"].measured.lasts_s


@contextmanager
def worked_off(waiting: Waiting, *, folder: Path) -> Iterator[EmbeddedServer]:
    """A server with a worker that is done with what was there at first."""
    with a_server(folder, fsync="always") as server, a_client(server, folder) as client:
        waiting.fill(server, folder)
        process = waiting.start(server, folder)
        try:
            until(lambda: Waits(folder / "waits").count() == 1, what="the worker runs")
            until(lambda: unsettled(client, streams=streams_of(waiting.backlog_priority)) == 0, what="the backlog is settled")
            yield server
        finally:
            end(process)


def test_the_waits_of_the_measured_events_are_noted_and_of_no_others(tmp_path: Path) -> None:
    flood = Trickle(300, 1000.0, tenant="a", is_measured=False)
    waiting = Waiting("a test", Trickle(60, 200.0, tenant="b"), flood=flood, backlog=100)

    with worked_off(waiting, folder=tmp_path) as server, a_client(server, tmp_path) as client:
        waiting.load(server, tmp_path)
        until(lambda: unsettled(client, streams=streams_of(Priority.DEFAULT)) == 0, what="all is settled")

        assert sum(client.xlen(stream) for stream in streams_of(Priority.DEFAULT)) == 1 + 100 + 300 + 60
    assert Waits(tmp_path / "waits").count() == waiting.events == 61


def test_a_backlog_that_is_done_before_the_measurement_is_said(tmp_path: Path) -> None:
    waiting = Waiting("a test", Trickle(10, 200.0, tenant="b"), backlog=10, backlog_priority=Priority.LOW)

    with (
        worked_off(waiting, folder=tmp_path) as server,
        pytest.raises(CannotMeasure, match="a test: all 10 events of the backlog were done"),
    ):
        waiting.load(server, tmp_path)


def test_a_measurement_leaves_out_its_first_second(tmp_path: Path) -> None:
    waiting = Waiting("a test", Trickle(300, 200.0, tenant="b", priority=Priority.URGENT))

    with a_server(tmp_path, fsync="always") as server:
        p99_ms = p99_wait_ms(waiting, server=server, folder=tmp_path, within_s=120)

    noted = Waits(tmp_path / "waits").read_ms()
    assert (len(noted), waiting.left_out) == (301, 201)
    assert min(noted[201:]) <= p99_ms <= max(noted[201:])
    # The very first one waited for the worker to start, which is not what is asked.
    assert noted[0] > p99_ms
