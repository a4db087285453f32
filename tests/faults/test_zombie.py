"""A worker that hung for longer than its lease may neither ack nor record. The control, unfenced, records a dead letter."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from infra.running.initialise import initialise
from infra.settings import LogSettings
from infra.streams.stream import EventStream
from tests.events import an_event
from tests.infra.running.processes import command_environment, until
from tests.ports import free_port
from tests.processors.waiting import letters, unsettled

REAL, BROKEN = "processors.child", "tests.faults.broken.worker_settles_unchecked"
# The zombie rejects its event as soon as the file `wake` is there, the other worker finishes it at once.
MODULE = """
import asyncio, os
from pathlib import Path
from processors import Reject, processor

HERE = Path(__file__).parent

@processor("*")
async def act(event, delivery):
    (HERE / os.environ["ROLE"]).touch()
    while os.environ["ROLE"] == "zombie":
        if (HERE / "wake").exists():
            raise Reject("the zombie's verdict")
        await asyncio.sleep(0.01)
"""


@pytest.mark.parametrize(
    ("module", "is_fenced"),
    [
        pytest.param(REAL, True, id="real", marks=pytest.mark.fault("D5")),
        pytest.param(BROKEN, False, id="control", marks=pytest.mark.control("D5")),
    ],
)
def test_a_zombie_records_nothing(log: LogSettings, tmp_path: Path, module: str, is_fenced: bool) -> None:
    home, code = tmp_path / "home", tmp_path / "code"
    initialise(home)
    code.mkdir()
    (code / "zombie_module.py").write_text(MODULE)
    asyncio.run(append_one(log, home=home))
    with ExitStack() as stack:
        zombie = stack.enter_context(worker(module, role="zombie", log=log, home=home, code=code))
        until((code / "zombie").exists, what="the zombie has the event")
        os.kill(zombie.pid, signal.SIGSTOP)
        stack.enter_context(worker(REAL, role="other", log=log, home=home, code=code))
        until(lambda: (code / "other").exists() and unsettled(log, home) == 0, what="the other worker took over and finished")

        (code / "wake").touch()
        os.kill(zombie.pid, signal.SIGCONT)

        until(lambda: "lease lost" in said(code, "zombie") or letters(log, home) != [], what="the zombie tried to settle")
        assert (letters(log, home) == []) is is_fenced


async def append_one(log: LogSettings, *, home: Path) -> None:
    stream = EventStream.open(log, home=home)
    await stream.append(an_event())
    await stream.close()


@contextmanager
def worker(module: str, *, role: str, log: LogSettings, home: Path, code: Path) -> Iterator[subprocess.Popen[bytes]]:
    overrides = {"LOG__URL": log.url, "LOG__PREFIX": log.prefix, "GROUPS__G__LEASE_MS": "500", "GROUPS__G__OPS_PORT": str(free_port())}
    environment = command_environment(home, **overrides) | {"ROLE": role}
    command = [sys.executable, "-m", module, "zombie_module", "--group", "g", "--consumer", role]
    with (code / f"{role}.log").open("wb") as output:
        process = subprocess.Popen(command, env=environment, cwd=code, stderr=output)
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def said(code: Path, role: str) -> str:
    return (code / f"{role}.log").read_text()
