"""A key of the log that somebody replaced by a string: the worker says so, stays alive without a flood of lines or a busy loop, and
goes on by itself when the key is gone. The control, whose loops are not guarded, dies again and again."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from infra.running.healthcheck import answers_ok
from infra.settings import LogSettings
from infra.streams.keys import Keys
from tests.events import an_event
from tests.faults.worker_process import REAL, WorkerProcesses
from tests.infra.running.processes import until
from tests.infra.streams.raw import open_raw
from tests.ports import free_port

BROKEN = "tests.faults.broken.worker_without_guard"


@pytest.fixture
def log(log: LogSettings) -> LogSettings:
    return log.model_copy(update={"shards": 1})


@pytest.mark.parametrize(
    ("module", "is_guarded"),
    [
        pytest.param(REAL, True, id="real", marks=pytest.mark.fault("D11")),
        pytest.param(BROKEN, False, id="control", marks=pytest.mark.control("D11")),
    ],
)
def test_a_worker_outlives_a_key_of_the_wrong_type(log: LogSettings, tmp_path: Path, module: str, is_guarded: bool) -> None:
    workers, port = WorkerProcesses(log, tmp_path), free_port()
    client, key = open_raw(log, home=workers.home), Keys(log.prefix, 1).events(0, "default")
    with workers.worker(module, ops_port=port):
        ids = workers.append([an_event()])
        until(lambda: has_run(workers, ids) and answers_ok(port), what="it works", within_s=60)

        client.set(key, "a string")
        until(lambda: "WRONGTYPE" in workers.said() and not answers_ok(port), what="it says so, and is not ready", within_s=60)
        share, said = watched(workers, seconds=3.0)

        client.delete(key)
        ids += workers.append([an_event()])
        until(lambda: has_run(workers, ids), what="it goes on", within_s=60)
    client.close()

    assert (len(workers.children()) == 1) is is_guarded
    assert not is_guarded or (share < 0.2 and said <= 30), (share, said)


def has_run(workers: WorkerProcesses, ids: list[str]) -> bool:
    return {event_id for event_id, _ in workers.runs} == set(ids)


def watched(workers: WorkerProcesses, *, seconds: float) -> tuple[float, int]:
    """Which share of a processor the child took meanwhile, and how many lines were written; no longer than it lives."""
    began, lines, used_s = time.monotonic(), len(workers.said().splitlines()), processor_seconds(workers.children()[0])
    until(lambda: len(workers.children()) > 1 or time.monotonic() > began + seconds, what="the time is over")
    share = (processor_seconds(workers.children()[0]) - used_s) / (time.monotonic() - began)
    return share, len(workers.said().splitlines()) - lines


def processor_seconds(pid: int) -> float:
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except FileNotFoundError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
