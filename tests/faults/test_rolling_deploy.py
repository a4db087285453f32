"""Workers of two releases run together, and a step back follows: no event of either version is lost, charged or given up.

The control acks what it cannot read.
"""

from __future__ import annotations

import signal
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from infra.settings import LogSettings
from infra.streams.keys import Keys
from tests.events import an_event
from tests.faults.worker_process import REAL, WorkerProcesses
from tests.infra.running.processes import until
from tests.infra.streams.raw import open_raw

BROKEN = "tests.faults.broken.worker_drops_other_versions"
NEXT = "tests.faults.next_release"


@pytest.mark.parametrize(
    ("old", "is_faithful"),
    [
        pytest.param(REAL, True, id="real", marks=pytest.mark.fault("D15")),
        pytest.param(BROKEN, False, id="control", marks=pytest.mark.control("D15")),
    ],
)
def test_events_of_two_versions_survive_a_rolling_deploy_and_a_step_back(
    log: LogSettings, tmp_path: Path, old: str, is_faithful: bool, times: int
) -> None:
    workers, each = WorkerProcesses(log, tmp_path), 20 * times
    options: dict[str, Any] = {"lease_ms": 1000}
    with ExitStack() as stack:
        stack.enter_context(workers.worker(old, consumer="old", **options))
        ids = append_both(workers, each)
        until(lambda: is_quiet(workers, old_runs=each), what="the old release has run or parked everything", within_s=60)
        with workers.worker(NEXT, consumer="new", **options) as new:
            ids += append_both(workers, each)
            until(lambda: len(set(workers.runs)) >= 2 * each, what="both releases work together", within_s=60)
            new.send_signal(signal.SIGKILL)  # with whatever it has in hand, its children too
        ids += append_both(workers, each)
        until(lambda: is_quiet(workers, old_runs=3 * each), what="after the step back nothing is in work", within_s=60)
        before_return = parked(workers)

        stack.enter_context(workers.worker(NEXT, consumer="new", **options))
        until(lambda: is_quiet(workers) and (not is_faithful or has_run(workers, ids)), what="everything was taken back", within_s=60)

    assert has_run(workers, ids) is is_faithful
    assert (before_return >= each) is is_faithful
    assert {attempt for _, attempt in workers.runs} == {1}
    assert workers.dead == []


def append_both(workers: WorkerProcesses, each: int) -> list[str]:
    return workers.append([an_event(version=version) for _ in range(each) for version in (1, 2)])


def has_run(workers: WorkerProcesses, ids: list[str]) -> bool:
    return {event_id for event_id, _ in workers.runs} == set(ids)


def is_quiet(workers: WorkerProcesses, *, old_runs: int = 0) -> bool:
    return len(set(workers.runs)) >= old_runs and workers.unsettled == 0


def parked(workers: WorkerProcesses) -> int:
    client, keys = open_raw(workers.log, home=workers.home), Keys(workers.log.prefix, workers.log.shards)
    total = sum(client.xlen(keys.parked(shard, "g")) for shard in keys.all_shards())
    client.close()
    return int(total)
