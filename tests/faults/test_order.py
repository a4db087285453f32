"""Events of one key keep their order while workers are killed. The control reads shards that it does not hold."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections import defaultdict
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
from tests.processors.waiting import unsettled

REAL, BROKEN = "processors", "tests.faults.broken.worker_reads_every_shard"
KEYS = [f"k{index}" for index in range(6)]
MODULE = """
import asyncio, os, random
from processors import processor

HERE = os.path.dirname(__file__)

def note(line):
    with open(os.path.join(HERE, "runs"), "a") as runs:
        runs.write(line + "\\n")

@processor("*", key=True)
async def act(event, delivery):
    while not os.path.exists(os.path.join(HERE, "both-are-there")):
        await asyncio.sleep(0.01)
    note(f"{event.key} {event.payload.decode()} begins")
    await asyncio.sleep(random.random() * 0.02)
    note(f"{event.key} {event.payload.decode()} ends")
"""


@pytest.mark.parametrize(
    ("module", "is_faithful"),
    [
        pytest.param(REAL, True, id="real", marks=pytest.mark.fault("I9")),
        pytest.param(BROKEN, False, id="control", marks=pytest.mark.control("I9")),
    ],
)
def test_order_is_kept_while_workers_are_killed(log: LogSettings, tmp_path: Path, module: str, is_faithful: bool, times: int) -> None:
    home, code, each = tmp_path / "home", tmp_path / "code", 40 * times
    initialise(home)
    code.mkdir()
    (code / "order_module.py").write_text(MODULE)
    asyncio.run(append_many(log, home=home, each=each))
    with ExitStack() as stack:
        first = stack.enter_context(worker(module, name="first", log=log, home=home, code=code))
        stack.enter_context(worker(module, name="second", log=log, home=home, code=code))
        until(lambda: all("worker started" in (code / f"{name}.log").read_text() for name in ("first", "second")), what="both run")
        (code / "both-are-there").touch()
        until(lambda: len(lines(code)) > each * len(KEYS) or bool(out_of_order(lines(code))), what="half is done", within_s=120)

        first.kill()

        until(lambda: unsettled(log, home) == 0 or bool(out_of_order(lines(code))), what="everything is settled", within_s=120)

    assert (out_of_order(lines(code)) == []) is is_faithful
    assert not is_faithful or {number for key, number, _ in lines(code) if key == KEYS[0]} == set(range(each))


def out_of_order(runs: list[tuple[str, int, str]]) -> list[str]:
    """Events that began before the one before them had ever ended."""
    ended: dict[str, set[int]] = defaultdict(set)
    found = []
    for key, number, what in runs:
        if what == "ends":
            ended[key].add(number)
        elif number and number - 1 not in ended[key]:
            found.append(f"{key} {number}")
    return found


async def append_many(log: LogSettings, *, home: Path, each: int) -> None:
    stream = EventStream.open(log, home=home)
    for number in range(each):
        for key in KEYS:
            await stream.append(an_event(key=key, payload=str(number).encode()))
    await stream.close()


def lines(code: Path) -> list[tuple[str, int, str]]:
    path = code / "runs"
    whole = path.read_text().splitlines() if path.exists() else []
    return [(key, int(number), what) for key, number, what in (line.split() for line in whole)]


@contextmanager
def worker(module: str, *, name: str, log: LogSettings, home: Path, code: Path) -> Iterator[subprocess.Popen[bytes]]:
    # A small hand, so that neither has everything before the other comes.
    group = {"LEASE_MS": "1500", "BATCH_SIZE": "3", "OPS_PORT": str(free_port())}
    overrides = {"LOG__URL": log.url, "LOG__PREFIX": log.prefix, **{f"GROUPS__G__{key}": value for key, value in group.items()}}
    command = [sys.executable, "-m", module, "--group", "g", "order_module", "--consumer", name]
    environment = command_environment(home, **overrides)
    with (code / f"{name}.log").open("wb") as output:
        process = subprocess.Popen(command, env=environment, cwd=code, stdout=output, stderr=output)
    try:
        yield process
    finally:
        process.kill()  # and the kernel kills its children
        process.wait()
