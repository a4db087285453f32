"""A worker whose machine's clock jumps retries when the server's clock says so, neither at once nor an hour late."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from infra.clock import Clock
from infra.settings import LogSettings
from infra.streams.stream import EventStream
from processors import Delivery, StreamEvent, processor
from tests.events import an_event
from tests.faults.breaking import break_script
from tests.processors.conftest import Starter
from tests.processors.waiting import until

HOUR_NS = 3_600_000_000_000
DELAY_MS = 400


@pytest.mark.fault("D8")
@pytest.mark.parametrize("jump_ns", [HOUR_NS, -HOUR_NS])
async def test_a_retry_waits_by_the_servers_clock_when_the_workers_jumps(
    stream: EventStream, working: Starter, log: LogSettings, home: Path, jump_ns: int
) -> None:
    runs: list[float] = []

    @processor("*")
    async def fail_once(event: StreamEvent, delivery: Delivery) -> None:
        runs.append(time.monotonic())
        if delivery.attempt == 1:
            raise ValueError("once")

    # From the first run on, its wall clock is an hour away.
    clock = Clock(wall_ns=lambda: time.time_ns() + (jump_ns if runs else 0))
    async with working(fail_once, clock=clock, retry_delays_ms=(DELAY_MS,)):
        await stream.append(an_event())
        await until(lambda: len(runs) == 2)

    assert runs[1] - runs[0] >= DELAY_MS / 1000


@pytest.mark.control("D8")
async def test_a_retry_that_waits_by_a_clock_which_is_behind_does_not_wait(
    monkeypatch: pytest.MonkeyPatch, stream: EventStream, working: Starter, log: LogSettings, home: Path
) -> None:
    break_script(monkeypatch, "settle", ("local due_ms = server_ms() +", "local due_ms = server_ms() - 3600000 +"))

    with pytest.raises(AssertionError, match="400 / 1000"):
        await test_a_retry_waits_by_the_servers_clock_when_the_workers_jumps(stream, working, log, home, -HOUR_NS)
