"""A worker that is killed at any of its steps loses nothing and leaves nothing behind, not in the retry streams either.

The controls: a worker that acks what it reads, and one that acks retries without deleting them.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from infra.running.embedded import EmbeddedServer
from infra.settings import LogSettings
from infra.streams.keys import Keys
from tests.events import an_event
from tests.faults.worker_process import CHILD, NOTING, WorkerProcesses
from tests.infra.running.processes import until
from tests.infra.streams.raw import open_raw
from tests.ports import free_port

BROKEN = "tests.faults.broken"
# Two of three events fail at first: one comes back at once, one after a while of the server's time.
RETRYING = (
    NOTING
    + """
from processors import Retry

@processor("retry.now")
async def again(event, delivery):
    if delivery.attempt == 1:
        raise Retry(after_ms=0)
    note(event, delivery)

@processor("retry.later")
async def later(event, delivery):
    if delivery.attempt == 1:
        raise Retry(after_ms=20)
    note(event, delivery)
"""
)
# Few deliveries at a time, so that there are many steps to die at. The next child has the name of the dead one and need not wait for
# its lease. A step that kills every child charges whoever runs then, which is not what is tried here.
OPTIONS: dict[str, Any] = {"batch_size": 4, "lease_ms": 60_000, "block_ms": 50, "max_attempts": 90, "circuit_failures": 0}


@pytest.mark.parametrize(
    ("module", "step"),
    [
        pytest.param(CHILD, "after_read", marks=pytest.mark.fault("D1")),
        pytest.param(CHILD, "before_run", marks=pytest.mark.fault("D1")),
        pytest.param(CHILD, "before_settle", marks=pytest.mark.fault("D2", "D3")),
        pytest.param(CHILD, "after_settle", marks=pytest.mark.fault("D2", "D3")),
        pytest.param(f"{BROKEN}.worker_acks_at_once", "after_read", id="control-acks", marks=pytest.mark.control("D1", "D2")),
        pytest.param(f"{BROKEN}.worker_leaves_retries_behind", "after_settle", id="control-leaves", marks=pytest.mark.control("D3")),
    ],
)
def test_a_worker_that_dies_at_any_step_loses_nothing_and_leaves_nothing(
    log: LogSettings, tmp_path: Path, module: str, step: str, times: int
) -> None:
    workers, ids = WorkerProcesses(log, tmp_path, code=RETRYING), []
    for time in (1, 2, 3) * times:
        ids += append_some(workers)
        workers.die_at(f"worker.{step}=kill@{time}", module=module, **OPTIONS)

    with workers.worker(module, **OPTIONS):
        until(lambda: workers.unsettled == 0, what="everything is settled", within_s=120)

    is_sound = {event_id for event_id, _ in workers.runs} == set(ids) and left_behind(workers) == 0
    assert is_sound is (module == CHILD)
    assert workers.dead == []


@pytest.fixture
def server(tmp_path: Path) -> Iterator[EmbeddedServer]:
    started = EmbeddedServer(tmp_path / "own", free_port(), password="a-test-password")
    started.start()
    yield started
    started.kill()


@pytest.mark.fault("D3")
def test_a_server_that_is_killed_while_retries_are_settled_keeps_each_once(server: EmbeddedServer, tmp_path: Path, times: int) -> None:
    workers = WorkerProcesses(LogSettings(url=server.url), tmp_path, code=RETRYING)
    ids: list[str] = []
    with workers.worker(CHILD, **OPTIONS):
        for _ in range(3 * times):
            ids += append_some(workers)
            before = len(workers.runs)
            until(lambda: len(workers.runs) > before, what="the worker is at work")  # noqa: B023 - asked within this round only
            server.kill()
            server.start()
        until(lambda: workers.unsettled == 0, what="everything is settled", within_s=120)

    assert {event_id for event_id, _ in workers.runs} == set(ids)
    assert (left_behind(workers), workers.dead) == (0, [])


def append_some(workers: WorkerProcesses) -> list[str]:
    return workers.append([an_event(event_type=kind) for _ in range(8) for kind in ("github.push", "retry.now", "retry.later")])


def left_behind(workers: WorkerProcesses) -> int:
    """What is in the keys of retries when nothing is to be done."""
    client, keys = open_raw(workers.log, home=workers.home), Keys(workers.log.prefix, workers.log.shards)
    total = 0
    for shard in keys.all_shards():
        total += client.xlen(keys.retry(shard, "g")) + client.zcard(keys.delayed(shard)) + client.hlen(keys.delayed_bodies(shard))
    client.close()
    return int(total)
