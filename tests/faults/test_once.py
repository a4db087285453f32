"""A worker that dies around its settle counts every event once. The control, which writes first and acks then, counts some twice."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from infra.failpoints import VARIABLE
from infra.running.initialise import initialise
from infra.settings import LogSettings
from infra.streams.once import OnceReader
from infra.streams.stream import EventStream
from tests.events import an_event
from tests.infra.running.processes import command_environment, until
from tests.ports import free_port
from tests.processors.waiting import letters, unsettled

REAL, BROKEN = "processors.child", "tests.faults.broken.worker_writes_before_it_acks"
MODULE = """
from processors import processor

@processor("*")
async def tally(event, delivery):
    delivery.once.count("events", event.id)
"""


@pytest.mark.parametrize(
    ("module", "failpoint"),
    [
        pytest.param(REAL, "worker.before_settle", id="before", marks=pytest.mark.fault("D2", "I4")),
        pytest.param(REAL, "worker.after_settle", id="after", marks=pytest.mark.fault("D2", "I4")),
        pytest.param(BROKEN, "worker.between", id="control", marks=pytest.mark.control("D2", "I4")),
    ],
)
def test_an_event_is_counted_once_although_its_worker_dies(
    log: LogSettings, tmp_path: Path, module: str, failpoint: str, times: int
) -> None:
    home, code, count = tmp_path / "home", tmp_path / "code", 20 * times
    initialise(home)
    code.mkdir()
    (code / "tally_module.py").write_text(MODULE)
    event_ids = asyncio.run(append(log, home=home, count=count))

    for time in (1, 2, 3):
        with worker(module, log=log, home=home, code=code, failpoint=f"{failpoint}=kill@{time}") as dying:
            assert dying.wait(timeout=120) == -signal.SIGKILL
    with worker(module, log=log, home=home, code=code):
        until(lambda: unsettled(log, home) == 0, what="everything is settled", within_s=120)

    once = OnceReader.open(log, home=home, group="g")
    counts = once.counts("events")
    once.close()
    assert (set(counts), letters(log, home)) == (set(event_ids), [])
    assert (set(counts.values()) == {1}) is (module == REAL)


async def append(log: LogSettings, *, home: Path, count: int) -> list[str]:
    stream = EventStream.open(log, home=home)
    events = [an_event() for _ in range(count)]
    for event in events:
        await stream.append(event)
    await stream.close()
    return [event.id for event in events]


@contextmanager
def worker(module: str, *, log: LogSettings, home: Path, code: Path, failpoint: str = "") -> Iterator[subprocess.Popen[bytes]]:
    # Few deliveries at a time, so that there are many settles to die at. The next one has its name, and need not wait for its lease.
    group = {"BATCH_SIZE": "2", "LEASE_MS": "60000", "BLOCK_MS": "50", "OPS_PORT": str(free_port())}
    overrides = {"LOG__URL": log.url, "LOG__PREFIX": log.prefix, **{f"GROUPS__G__{name}": value for name, value in group.items()}}
    environment = command_environment(home, **overrides) | ({VARIABLE: failpoint} if failpoint else {})
    command = [sys.executable, "-m", module, "tally_module", "--group", "g", "--consumer", "c1"]
    with (code / "worker.log").open("ab") as output:
        process = subprocess.Popen(command, env=environment, cwd=code, stderr=output)
    try:
        yield process
    finally:
        process.kill()
        process.wait()
