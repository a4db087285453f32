"""What somebody trims before a group was handed it is counted to the unit, named, and asked about. The control loses it in silence."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from infra.settings import LogSettings
from infra.streams.keys import Keys
from tests.events import an_event
from tests.faults.test_vanished_group import has_group, is_noted
from tests.faults.worker_process import NOTING, WorkerProcesses
from tests.infra.running.processes import run_module, until
from tests.infra.streams.raw import open_raw

REAL, BROKEN = "processors.child", "tests.faults.broken.worker_misses_no_gap"
KEPT = 10
# So slow that the stream is trimmed beneath it long before its end.
SLOW = NOTING.replace("    note(", "    await asyncio.sleep(0.01)\n    note(").replace("import os", "import asyncio\nimport os")


@pytest.fixture
def log(log: LogSettings) -> LogSettings:
    return log.model_copy(update={"shards": 1})


@pytest.mark.parametrize(
    ("module", "is_loud"),
    [
        pytest.param(REAL, True, id="real", marks=pytest.mark.fault("D12")),
        pytest.param(BROKEN, False, id="control", marks=pytest.mark.control("D12")),
    ],
)
def test_what_was_trimmed_before_a_worker_came_to_it_is_counted_and_shown(
    log: LogSettings, tmp_path: Path, module: str, is_loud: bool, times: int
) -> None:
    workers, many = WorkerProcesses(log, tmp_path), 20 * times
    client, keys = open_raw(log, home=workers.home), Keys(log.prefix, 1)
    with workers.worker(module):
        until(lambda: has_group(client, keys), what="the group is there", within_s=60)
        sent = workers.append([an_event() for _ in range(many)])
        until(lambda: is_noted(client, keys), what="all are settled, and that is noted", within_s=60)
    sent += workers.append([an_event() for _ in range(2 * many)])
    client.xtrim(keys.events(0, "default"), maxlen=KEPT, approximate=False)

    with workers.worker(module):
        until(lambda: is_noted(client, keys), what="what is left is settled, and that is noted", within_s=60)

    client.close()
    lost = len(sent) - len(workers.runs)
    assert lost == 2 * many - KEPT
    if is_loud:
        assert shown(log, home=workers.home) == (lost, [f"{many + 1} to {many + lost}"], 1)
    else:
        assert shown(log, home=workers.home)[:2] == (0, [])


@pytest.mark.fault("D12")
def test_what_is_trimmed_beneath_a_worker_that_runs_is_counted_to_the_unit(log: LogSettings, tmp_path: Path, times: int) -> None:
    workers, many = WorkerProcesses(log, tmp_path, code=SLOW), 1000 * times
    client, keys = open_raw(log, home=workers.home), Keys(log.prefix, 1)
    sent = workers.append([an_event() for _ in range(many)])
    with workers.worker(REAL, concurrency=2, batch_size=20):
        until(lambda: len(workers.runs) > 100, what="some have run", within_s=60)
        client.xtrim(keys.events(0, "default"), maxlen=KEPT, approximate=False)
        until(lambda: is_noted(client, keys), what="what is left is settled, and that is noted", within_s=60)

    client.close()
    lost, named, code = shown(log, home=workers.home)
    assert len({event_id for event_id, _ in workers.runs}) + lost == len(sent)
    assert (lost > 0, len(named), code) == (True, 1, 1)


def shown(log: LogSettings, *, home: Path) -> tuple[int, list[str], int]:
    """What status counts as lost for the group, which numbers `groups lost` names, and the exit code that asks for a person."""
    of_log = {"LOG__URL": log.url, "LOG__PREFIX": log.prefix, "LOG__SHARDS": str(log.shards)}
    status = run_module("infra.running.status", "--json", home=home, **of_log)
    named = json.loads(run_module("processors.groups", "lost", "g", "--json", home=home, **of_log).stdout)
    (lost,) = [state["lost"] for state in json.loads(status.stdout)["groups"] if state["group"] == "g"]
    assert any("`hooklake groups lost g`" in need for need in json.loads(status.stdout)["needs"]) is bool(lost)
    return lost, [f"{one['first_number']} to {one['last_number']}" for one in named], status.returncode
