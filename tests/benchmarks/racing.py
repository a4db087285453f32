"""Owns one measurement: fill a log server, start one worker process, watch it until everything is done, end it."""

from __future__ import annotations

import contextlib
import functools
import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Protocol

from infra.running.embedded import EmbeddedServer
from tests.benchmarks.rates import CannotMeasure, Observation, events_per_second
from tests.ports import free_port

Fsync = Literal["always", "everysec"]
LOOK_EVERY_S = 0.01
END_WITHIN_S = 30.0


class Contender(Protocol):
    """Something that processes events; each measurement has a server and a folder of its own."""

    @property
    def name(self) -> str: ...

    @property
    def events(self) -> int:
        """How many are processed: enough for some seconds."""

    def fill(self, server: EmbeddedServer, folder: Path) -> None:
        """Puts the events where the worker finds them; not timed."""

    def start(self, server: EmbeddedServer, folder: Path) -> subprocess.Popen[bytes]:
        """The worker process, in a session of its own, its output in `worker.log`."""

    def counter(self, server: EmbeddedServer, folder: Path) -> Callable[[], int]:
        """A function that tells how many are done by now."""


@contextmanager
def a_server(folder: Path, *, fsync: Fsync) -> Iterator[EmbeddedServer]:
    """The embedded server as `up` starts it, but for the named fsync policy.

    A rewrite of the append-only file would fall into one contender's time and not into another's, so there is none.
    """
    options = {"appendfsync": fsync, "auto-aof-rewrite-percentage": "0"}
    server = EmbeddedServer(folder / "log", free_port(), password="a-benchmark-password", options=options)
    server.start()
    try:
        yield server
    finally:
        server.kill()


@dataclass(frozen=True, slots=True)
class Run:
    """What one measurement found."""

    events_per_second: float
    resident_bytes: int
    """Of the worker's largest process, when everything was done."""
    resident_early_bytes: int
    """The same when a fifth was done."""


def measure(contender: Contender, *, server: EmbeddedServer, folder: Path, within_s: float) -> Run:
    """One worker process over `contender.events` events; raises CannotMeasure with the end of its output."""
    contender.fill(server, folder)
    count = contender.counter(server, folder)
    process = contender.start(server, folder)
    try:
        look_on_until = functools.partial(look_until, count=count, process=process, within_s=within_s, contender=contender, folder=folder)
        first = look_on_until(1)
        look_on_until(contender.events // 5)
        resident_early_bytes = largest_resident_bytes(process.pid)
        last = look_on_until(contender.events)
        return Run(events_per_second(first, last), largest_resident_bytes(process.pid), resident_early_bytes)
    finally:
        end(process)


def look_until(
    least: int, *, count: Callable[[], int], process: subprocess.Popen[bytes], within_s: float, contender: Contender, folder: Path
) -> Observation:
    """Returns when so many are done; raises CannotMeasure when the worker has ended or the time is over."""
    deadline = time.monotonic() + within_s
    while (done := count()) < least:
        if process.poll() is not None or time.monotonic() > deadline:
            how = f"ended with {process.returncode}" if process.returncode is not None else f"was not done within {within_s:g} s"
            raise CannotMeasure(f"{contender.name} {how} after {done} of {contender.events} events: {tail(folder / 'worker.log')}")
        time.sleep(LOOK_EVERY_S)
    return Observation(time.monotonic(), done)


def start_process(command: list[str], *, environment: dict[str, str], folder: Path, cwd: Path) -> subprocess.Popen[bytes]:
    with (folder / "worker.log").open("wb") as output:
        return subprocess.Popen(
            command, env=environment, cwd=cwd, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT, start_new_session=True
        )


def end(process: subprocess.Popen[bytes]) -> None:
    """SIGTERM, then after a while SIGKILL to its whole session: a peer's children must not run into the next measurement."""
    with contextlib.suppress(ProcessLookupError):
        process.terminate()
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(END_WITHIN_S)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def largest_resident_bytes(pid: int) -> int:
    """Of a process and its descendants; a worker may be a parent with children."""
    return max(map(_resident_bytes, _family(pid)), default=0)


def processor_seconds(pid: int) -> float:
    """What a process and its descendants have used so far, in user and kernel mode."""
    return sum(map(_processor_seconds, _family(pid)))


def _family(pid: int) -> list[int]:
    family, waiting = [], [pid]
    while waiting:
        family.append(waiting.pop())
        waiting += _children(family[-1])
    return family


def _children(pid: int) -> list[int]:
    with contextlib.suppress(FileNotFoundError, ProcessLookupError):
        tasks = (Path("/proc") / str(pid) / "task").iterdir()
        return [int(child) for task in tasks for child in (task / "children").read_text().split()]
    return []


def _processor_seconds(pid: int) -> float:
    with contextlib.suppress(FileNotFoundError, ProcessLookupError):
        # The name of a process may have anything in it; what follows is in ticks, user and system at the places 14 and 15 of the line.
        fields = (Path("/proc") / str(pid) / "stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    return 0.0


def _resident_bytes(pid: int) -> int:
    with contextlib.suppress(FileNotFoundError, ProcessLookupError, StopIteration):
        lines = (Path("/proc") / str(pid) / "status").read_text().splitlines()
        return int(next(line for line in lines if line.startswith("VmRSS:")).split()[1]) * 1024
    return 0


def tail(path: Path, *, characters: int = 2000) -> str:
    text = path.read_text(errors="replace").strip() if path.exists() else ""
    return text[-characters:] or "it said nothing"
