"""Owns the measurement of waits: a few events by a timetable, through a worker that has nothing else to do or very much."""

from __future__ import annotations

import functools
import multiprocessing
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from infra.running.embedded import EmbeddedServer
from schemas.event import Priority
from tests.benchmarks.filling import Filling, wire_form
from tests.benchmarks.ours import a_client, start_worker, streams_of, unsettled
from tests.benchmarks.racing import end, look_until
from tests.benchmarks.rates import CannotMeasure, Figure, p99
from tests.benchmarks.rows import Goal, Row
from tests.benchmarks.trickle import Trickle
from tests.benchmarks.waits import VARIABLE, Waits, stamped_body

FLOOD = 50
WARM_UP_S = 1.0
# Time to make the first events before the first one is due.
PREPARE_S = 0.5
# More than one worker process gets through, so that a backlog lasts.
BACKLOG_PER_SECOND = 32_000


@dataclass(frozen=True, slots=True)
class Waiting:
    """A contender: our worker, and what it is measured with."""

    name: str
    measured: Trickle
    """The first second of it is left out."""
    flood: Trickle | None = None
    backlog: int = 0
    """Entries of tenant `a` that wait before the first measured event; of another priority, they must not run out before the last."""
    backlog_priority: Priority = Priority.DEFAULT

    @property
    def events(self) -> int:
        """One to see that the worker runs, and the trickle."""
        return 1 + self.measured.count

    @property
    def left_out(self) -> int:
        return 1 + round(self.measured.per_second * WARM_UP_S)

    def fill(self, server: EmbeddedServer, folder: Path) -> None:
        with a_client(server, folder) as client:
            first = wire_form(payload=stamped_body(time.monotonic_ns()), priority=self.measured.priority)
            filling = Filling(client)
            client.execute_command(*filling.command(streams_of(self.measured.priority)[0], first))
            filling.add(streams_of(self.backlog_priority), count=self.backlog, tenant_id="a", priority=self.backlog_priority)

    def start(self, server: EmbeddedServer, folder: Path) -> subprocess.Popen[bytes]:
        return start_worker("tests.benchmarks.sleeper", server=server, folder=folder, overrides={VARIABLE: str(folder / "waits")})

    def counter(self, server: EmbeddedServer, folder: Path) -> Callable[[], int]:
        return Waits(folder / "waits").count

    def load(self, server: EmbeddedServer, folder: Path) -> None:
        """Appends by the timetable. Raises CannotMeasure when the backlog was gone before the end."""
        with ExitStack() as stack:
            begin_ns = time.monotonic_ns() + round(PREPARE_S * 1e9)
            if self.flood is not None:
                stack.enter_context(_beside(self.flood, server=server, folder=folder, begin_ns=begin_ns))
            client = stack.enter_context(a_client(server, folder))
            self.measured.send(client, begin_ns=begin_ns)
            if self._must_last and not unsettled(client, streams=streams_of(self.backlog_priority)):
                raise CannotMeasure(f"{self.name}: all {self.backlog} events of the backlog were done too early; measure with more of them")

    @property
    def _must_last(self) -> bool:
        return self.backlog > 0 and self.backlog_priority is not self.measured.priority


@contextmanager
def _beside(trickle: Trickle, *, server: EmbeddedServer, folder: Path, begin_ns: int) -> Iterator[None]:
    """In a process of its own, so that sending the flood does not delay sending what is measured."""

    def send() -> None:
        with a_client(server, folder) as client:
            trickle.send(client, begin_ns=begin_ns)

    process = multiprocessing.get_context("fork").Process(target=send)
    process.start()
    try:
        yield
        # Half the rate would be half the flood.
        process.join(max(0.0, begin_ns / 1e9 + 2 * trickle.lasts_s - time.monotonic()))
        if process.exitcode != 0:
            raise CannotMeasure(
                f"{trickle.count} events were not sent within {2 * trickle.lasts_s:g} s: this machine is too slow or too busy"
            )
    finally:
        process.kill()
        process.join()


def p99_wait_ms(waiting: Waiting, *, server: EmbeddedServer, folder: Path, within_s: float) -> float:
    """Of the measured events, from when they were due to be appended to when their processor began; raises CannotMeasure."""
    waiting.fill(server, folder)
    process = waiting.start(server, folder)
    try:
        count = waiting.counter(server, folder)
        look_on_until = functools.partial(look_until, count=count, process=process, within_s=within_s, contender=waiting, folder=folder)
        look_on_until(1)
        waiting.load(server, folder)
        look_on_until(waiting.events)
        return p99(Waits(folder / "waits").read_ms()[waiting.left_out :])
    finally:
        end(process)


def all_waiting(*, scale: float) -> list[Waiting]:
    """In the order of a repetition: each beside what it is compared with."""
    urgent = _trickle(5 * scale, per_second=200, priority=Priority.URGENT)
    tenant = _trickle(20 * scale, per_second=50)
    flood = Trickle(FLOOD * tenant.count, FLOOD * tenant.per_second, tenant="a", is_measured=False)
    low = round(BACKLOG_PER_SECOND * urgent.lasts_s)
    return [
        Waiting("urgent-alone", urgent),
        Waiting("urgent-among-low", urgent, backlog=low, backlog_priority=Priority.LOW),
        Waiting("tenant-alone", tenant),
        Waiting("tenant-in-flood", tenant, flood=flood),
        Waiting("tenant-behind-flood", tenant, backlog=flood.count),
    ]


def _trickle(seconds: float, *, per_second: float, priority: Priority = Priority.DEFAULT) -> Trickle:
    return Trickle(round((WARM_UP_S + max(seconds, 0.5)) * per_second), per_second, tenant="b", priority=priority)


def wait_rows(p99s_ms: Mapping[str, Sequence[float]]) -> list[Row]:
    """What the measurements say; pure."""
    found = {name: Figure(tuple(samples)) for name, samples in p99s_ms.items()}
    urgent, tenant = found["urgent-alone"], found["tenant-alone"]
    return [
        Row("processing/urgent-wait", "ms p99", found["urgent-among-low"], urgent, Goal(3, "at most")),
        Row("processing/tenant-wait", "ms p99", found["tenant-in-flood"], tenant, Goal(2, "at most")),
        Row("processing/tenant-wait-saturated", "ms p99", found["tenant-behind-flood"], tenant),
    ]
