"""A dead letter is written once and requeued once, although its worker and whoever requeues it are killed at each of their steps.

The control writes letters without acking.
"""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from infra.failpoints import VARIABLE
from infra.settings import LogSettings
from tests.events import an_event
from tests.faults.worker_process import CHILD, NOTING, WorkerProcesses
from tests.infra.running.processes import command_environment, until

BROKEN = "tests.faults.broken.worker_gives_up_without_ack"
REJECTING = (
    NOTING
    + """
from processors import Reject

@processor("rejected.*")
async def reject(event, delivery):
    if os.path.exists(os.path.join(HERE, "rejecting")):
        raise Reject("for now")
    note(event, delivery)
"""
)
OPTIONS: dict[str, Any] = {"batch_size": 4, "lease_ms": 60_000, "block_ms": 50, "max_attempts": 90}


@pytest.mark.parametrize(
    ("module", "is_faithful"),
    [
        pytest.param(CHILD, True, id="real", marks=pytest.mark.fault("D13")),
        pytest.param(BROKEN, False, id="control", marks=pytest.mark.control("D13")),
    ],
)
def test_a_letter_is_written_once_and_requeued_once(log: LogSettings, tmp_path: Path, module: str, is_faithful: bool, times: int) -> None:
    workers = WorkerProcesses(log, tmp_path, code=REJECTING)
    (workers.code / "rejecting").touch()
    ids = workers.append([an_event(event_type="rejected.once") for _ in range(30 * times)])
    for time in (1, 2) * times:
        for step in ("before_settle", "after_settle"):
            workers.die_at(f"worker.{step}=kill@{time}", module=module, **OPTIONS)
    with workers.worker(module, **OPTIONS):
        until(lambda: set(workers.dead) == set(ids), what="every event is a dead letter", within_s=120)
    assert (sorted(workers.dead) == sorted(ids)) is is_faithful
    if not is_faithful:
        return

    (workers.code / "rejecting").unlink()
    codes = [requeue_all(workers, failpoint=f"requeue.{step}=kill@3") for step in ("before", "after") * times]
    codes += [requeue_all(workers), requeue_all(workers)]
    with workers.worker(CHILD, **OPTIONS):
        until(lambda: workers.unsettled == 0, what="everything is settled", within_s=120)

    assert codes == [-signal.SIGKILL] * 2 * times + [0, 0]
    assert sorted(event_id for event_id, _ in workers.runs) == sorted(ids)


def requeue_all(workers: WorkerProcesses, *, failpoint: str = "") -> int:
    of_log = {"LOG__URL": workers.log.url, "LOG__PREFIX": workers.log.prefix, "LOG__SHARDS": str(workers.log.shards)}
    environment = command_environment(workers.home, **of_log) | ({VARIABLE: failpoint} if failpoint else {})
    command = [sys.executable, "-m", "processors.requeue", "requeue", "--all", "--yes"]
    return subprocess.run(command, env=environment, capture_output=True, timeout=90, check=False).returncode
