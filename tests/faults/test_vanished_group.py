"""A group that is destroyed beneath its worker comes back where it had settled everything. The control begins at the end."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from infra.settings import LogSettings
from infra.streams.keys import Keys
from tests.events import an_event
from tests.faults.worker_process import WorkerProcesses
from tests.infra.running.processes import until
from tests.infra.streams.raw import open_raw

REAL, BROKEN = "processors.child", "tests.faults.broken.worker_begins_at_the_end"


@pytest.fixture
def log(log: LogSettings) -> LogSettings:
    return log.model_copy(update={"shards": 1})


@pytest.mark.parametrize(
    ("module", "is_faithful"),
    [
        pytest.param(REAL, True, id="real", marks=pytest.mark.fault("D10")),
        pytest.param(BROKEN, False, id="control", marks=pytest.mark.control("D10")),
    ],
)
def test_a_group_that_vanished_skips_nothing_and_repeats_nothing_that_was_noted(
    log: LogSettings, tmp_path: Path, module: str, is_faithful: bool, times: int
) -> None:
    workers, many = WorkerProcesses(log, tmp_path), 20 * times
    client, keys = open_raw(log, home=workers.home), Keys(log.prefix, 1)
    with workers.worker(module):
        until(lambda: has_group(client, keys), what="the group is there", within_s=60)
        sent = workers.append([an_event() for _ in range(many)])
        until(lambda: is_noted(client, keys), what="all are settled, and that is noted", within_s=60)
    client.xgroup_destroy(keys.events(0, "default"), "g")
    sent += workers.append([an_event() for _ in range(many)])

    with workers.worker(module):
        until(lambda: has_group(client, keys), what="the group is there again", within_s=60)
        sent += workers.append([an_event() for _ in range(many)])
        until(lambda: is_noted(client, keys), what="all are settled, and that is noted", within_s=60)

    client.close()
    assert (sorted(event_id for event_id, _ in workers.runs) == sorted(sent)) is is_faithful


def has_group(client: Any, keys: Keys) -> bool:
    stream = keys.events(0, "default")
    return bool(client.exists(stream) and client.xinfo_groups(stream))


def is_noted(client: Any, keys: Keys) -> bool:
    newest = client.xinfo_stream(keys.events(0, "default"))["last-generated-id"]
    return bool((client.hget(keys.registry(0), "at:g:default") or b"").endswith(b"|" + newest))
