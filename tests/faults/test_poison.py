"""A processor that cannot be survived costs its own event only: it ends as a dead letter, its neighbours run, uncharged.

The controls: a worker that takes everything of its dead predecessor up at once, so that neighbours die with the poison again and
again; and one that never parts with a processor that overstays.
"""

from __future__ import annotations

import asyncio
import resource
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from infra.running.initialise import initialise
from infra.settings import LogSettings
from infra.streams.stream import EventStream
from schemas.event import StreamEvent
from tests.events import an_event
from tests.infra.running.processes import command_environment, until
from tests.ports import free_port
from tests.processors.waiting import letters, unsettled

REAL = "processors"
# Neighbours note each of their runs in a file; the poison does what its event's type says.
MODULE = """
import asyncio, ctypes, os, signal, time
from pathlib import Path
from processors import processor

HERE = Path(__file__).parent

def note(event, delivery):
    with (HERE / "runs").open("a") as runs:
        runs.write(f"{event.id} {delivery.attempt}\\n")

@processor("*")
async def good(event, delivery):
    await asyncio.sleep(0.05)  # long enough to be caught by a death
    note(event, delivery)

@processor("poison.segfault", max_attempts=2)
async def segfault(event, delivery):
    ctypes.string_at(0)

@processor("poison.exit", max_attempts=2)
def leave(event, delivery):
    os._exit(3)

@processor("poison.kill", max_attempts=2)
async def killed(event, delivery):  # as the kernel does when memory is short
    os.kill(os.getpid(), signal.SIGKILL)

@processor("poison.loop", max_attempts=2, timeout_ms=200)
async def loop(event, delivery):
    while True:
        time.sleep(0.01)

@processor("poison.thread", max_attempts=2, timeout_ms=200)
def thread(event, delivery):
    while True:
        pass

@processor("poison.stubborn", max_attempts=2, timeout_ms=200)
async def stubborn(event, delivery):
    while True:
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            pass

@processor("poison.sysexit", max_attempts=2)
def sysexit(event, delivery):
    raise SystemExit(3)

@processor("poison.interrupt", max_attempts=2)
async def interrupt(event, delivery):
    raise KeyboardInterrupt

@processor("poison.recursion", max_attempts=2)
async def recursion(event, delivery):
    await recursion(event, delivery)

@processor("poison.memory", max_attempts=2)
async def memory(event, delivery):
    everything = [bytearray(1 << 30) for _ in range(4)]
"""
BATCH_MODULE = """
import os, signal
from pathlib import Path
from processors import processor

HERE = Path(__file__).parent

@processor("*", batch=8, batch_wait_ms=500, concurrency=2, max_attempts=2, timeout_ms=1000)
def together(events, deliveries):
    types = {event.event_type for event in events}
    if "poison.raises" in types:
        raise ValueError("there is poison among them")
    if "poison.kills" in types:
        os.kill(os.getpid(), signal.SIGKILL)
    while "poison.overstays" in types:
        pass
    with (HERE / "runs").open("a") as runs:
        runs.writelines(f"{event.id} {delivery.attempt}\\n" for event, delivery in zip(events, deliveries))
"""
KINDS = ("segfault", "exit", "kill", "loop", "thread", "stubborn", "sysexit", "interrupt", "recursion", "memory")
MOST_MEMORY_BYTES = 3 << 30
"""Of addresses, for the parent and each child: enough to work, and not for what `poison.memory` asks for."""


@pytest.mark.fault("D6")
@pytest.mark.parametrize("kind", KINDS)
def test_poison_ends_as_a_dead_letter_and_its_neighbours_are_not_charged(log: LogSettings, tmp_path: Path, kind: str, times: int) -> None:
    poisoned = Poisoned(log, tmp_path, kind=kind, neighbours=20 * times)

    with poisoned.worker(REAL):
        until(lambda: poisoned.is_over, what="the poison is a dead letter and nothing is left", within_s=120)

    assert [letter.event.event_type for letter in letters(log, poisoned.home) if letter.event] == [f"poison.{kind}"]
    # At least once each: who had run but was not settled when the process died runs again, still as its first attempt.
    assert set(poisoned.runs) == {(event_id, 1) for event_id in poisoned.neighbours}


@pytest.mark.fault("D6")
@pytest.mark.parametrize("kind", ["raises", "kills", "overstays"])
def test_poison_in_a_batch_costs_its_own_event_only(log: LogSettings, tmp_path: Path, kind: str) -> None:
    poisoned = Poisoned(log, tmp_path, kind=kind, module=BATCH_MODULE)

    with poisoned.worker(REAL):
        until(lambda: poisoned.is_over, what="the poison is a dead letter and nothing is left", within_s=120)

    assert [letter.event.event_type for letter in letters(log, poisoned.home) if letter.event] == [f"poison.{kind}"]
    assert set(poisoned.runs) == {(event_id, 1) for event_id in poisoned.neighbours}


@pytest.mark.control("D6")
def test_where_a_batch_is_charged_as_one_neighbours_become_dead_letters(log: LogSettings, tmp_path: Path) -> None:
    poisoned = Poisoned(log, tmp_path, kind="raises", module=BATCH_MODULE)

    with poisoned.worker("tests.faults.broken.worker_charges_whole_batches"):
        until(lambda: poisoned.is_over, what="everything ended somehow", within_s=120)

    assert len(letters(log, poisoned.home)) > 1


@pytest.mark.control("D6")
def test_without_isolation_neighbours_are_charged(log: LogSettings, tmp_path: Path) -> None:
    poisoned = Poisoned(log, tmp_path, kind="kill")

    with poisoned.worker("tests.faults.broken.worker_takes_all_at_once"):
        until(lambda: poisoned.is_over, what="everything ended somehow", within_s=120)

    assert {attempt for _, attempt in poisoned.runs} != {1} or len(letters(log, poisoned.home)) > 1


@pytest.mark.control("D6")
def test_without_the_lease_thread_s_verdict_a_loop_runs_for_ever(log: LogSettings, tmp_path: Path) -> None:
    poisoned = Poisoned(log, tmp_path, kind="loop")

    with poisoned.worker("tests.faults.broken.worker_waits_for_ever"):
        until(lambda: "worker started" in poisoned.said(), what="the child runs", within_s=60)
        deadline = time.monotonic() + 5  # ten times timeout and grace
        while time.monotonic() < deadline and not poisoned.is_over:
            time.sleep(0.1)

        assert letters(log, poisoned.home) == []


class Poisoned:
    """A log with a poison event in the middle of others, and a worker to run them."""

    def __init__(self, log: LogSettings, tmp_path: Path, *, kind: str, neighbours: int = 20, module: str = MODULE) -> None:
        self.log, self.home, self.code = log, tmp_path / "home", tmp_path / "code"
        initialise(self.home)
        self.code.mkdir()
        (self.code / "poison_module.py").write_text(module)
        events = [an_event() for _ in range(neighbours)]
        self.neighbours = [event.id for event in events]
        events.insert(neighbours // 2, an_event(event_type=f"poison.{kind}"))
        asyncio.run(self._append(events))

    async def _append(self, events: list[StreamEvent]) -> None:
        stream = EventStream.open(self.log, home=self.home)
        for event in events:
            await stream.append(event)
        await stream.close()

    @contextmanager
    def worker(self, module: str) -> Iterator[subprocess.Popen[bytes]]:
        # The lease is long: nobody may need to wait for it, since the next child has the dead one's name.
        group = {"LEASE_MS": "60000", "GRACE_MS": "300", "OPS_PORT": str(free_port())}
        overrides = {
            "LOG__URL": self.log.url,
            "LOG__PREFIX": self.log.prefix,
            **{f"GROUPS__G__{name}": value for name, value in group.items()},
        }
        command = [sys.executable, "-m", module, "--group", "g", "poison_module"]
        with (self.code / "worker.log").open("wb") as output:
            process = subprocess.Popen(
                command, env=command_environment(self.home, **overrides), cwd=self.code, stderr=output, stdout=output
            )
        resource.prlimit(process.pid, resource.RLIMIT_AS, (MOST_MEMORY_BYTES, MOST_MEMORY_BYTES))
        try:
            yield process
        finally:
            process.kill()  # and the kernel kills its children
            process.wait()

    @property
    def runs(self) -> list[tuple[str, int]]:
        path = self.code / "runs"
        lines = path.read_text().splitlines() if path.exists() else []
        return [(event_id, int(attempt)) for event_id, attempt in (line.split() for line in lines)]

    @property
    def is_over(self) -> bool:
        return len(letters(self.log, self.home)) > 0 and unsettled(self.log, self.home) == 0

    def said(self) -> str:
        return (self.code / "worker.log").read_text()
