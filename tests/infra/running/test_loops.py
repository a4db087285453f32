from __future__ import annotations

import asyncio
import json
import threading
import time

import pytest

from infra.running.loops import BackOff, keep_running, keep_running_blocking
from infra.telemetry import Telemetry
from schemas.errors import ConfigError, SchemaDrift, StreamUnavailable

QUICK = BackOff(first_ms=1, cap_ms=2)


def test_the_wait_doubles_up_to_its_cap_and_is_jittered() -> None:
    steady = BackOff(first_ms=100, cap_ms=1000, jitter=0)
    jittered = BackOff(first_ms=100, cap_ms=1000, jitter=0.2)

    assert [steady.delay_s(failures) for failures in (1, 2, 3, 4, 5, 5000)] == [0.1, 0.2, 0.4, 0.8, 1.0, 1.0]
    delays = {jittered.delay_s(5) for _ in range(100)}
    assert len(delays) > 1
    assert all(0.8 <= delay <= 1.2 for delay in delays)


async def test_a_loop_goes_on_after_whatever_fails(telemetry: Telemetry) -> None:
    stop, rounds = asyncio.Event(), [0]

    async def step() -> None:
        rounds[0] += 1
        if rounds[0] == 5:
            stop.set()
        raise [StreamUnavailable("away"), KeyError("bug"), OSError("disk")][rounds[0] % 3]

    await keep_running(step, name="reader", telemetry=telemetry, stop=stop, back_off=QUICK)

    assert rounds == [5]
    assert b'loop_failures_total{loop="reader"} 5.0' in telemetry.metrics_page()


def test_a_blocking_loop_goes_on_after_whatever_fails(telemetry: Telemetry) -> None:
    stop, rounds = threading.Event(), [0]

    def step() -> None:
        rounds[0] += 1
        if rounds[0] == 5:
            stop.set()
        raise KeyError("bug")

    keep_running_blocking(step, name="lease", telemetry=telemetry, stop=stop, back_off=QUICK)

    assert rounds == [5]
    assert b'loop_failures_total{loop="lease"} 5.0' in telemetry.metrics_page()


@pytest.mark.parametrize("error", [ConfigError("log.url is wrong"), SchemaDrift("the table has other columns")])
async def test_what_only_a_person_can_mend_ends_the_loop(telemetry: Telemetry, error: Exception) -> None:
    async def step() -> None:
        raise error

    def blocking_step() -> None:
        raise error

    with pytest.raises(type(error)):
        await keep_running(step, name="archive", telemetry=telemetry, stop=asyncio.Event(), back_off=QUICK)
    with pytest.raises(type(error)):
        keep_running_blocking(blocking_step, name="archive", telemetry=telemetry, stop=threading.Event(), back_off=QUICK)


async def test_a_loop_that_fails_a_thousand_times_says_so_once(telemetry: Telemetry, capsys: pytest.CaptureFixture[str]) -> None:
    stop, rounds = asyncio.Event(), [0]

    async def step() -> None:
        rounds[0] += 1
        if rounds[0] == 1000:
            stop.set()
        raise StreamUnavailable("the log is away")

    await keep_running(step, name="reader", telemetry=telemetry, stop=stop, back_off=BackOff(first_ms=0, cap_ms=0))

    lines = [json.loads(line) for line in capsys.readouterr().err.splitlines()]
    assert [(line["event"], line["loop"], line["reason"]) for line in lines] == [("loop failed, going on", "reader", "the log is away")]


async def test_a_bug_is_logged_with_its_place(telemetry: Telemetry, capsys: pytest.CaptureFixture[str]) -> None:
    stop = asyncio.Event()

    async def step() -> None:
        stop.set()
        raise KeyError("bug")

    await keep_running(step, name="reader", telemetry=telemetry, stop=stop)

    assert "test_loops.py" in json.loads(capsys.readouterr().err)["exception"]


async def test_stop_ends_a_loop_that_waits(telemetry: Telemetry) -> None:
    stop, failing = asyncio.Event(), asyncio.Event()

    async def step() -> None:
        failing.set()
        raise StreamUnavailable("away")

    loop = asyncio.create_task(
        keep_running(step, name="reader", telemetry=telemetry, stop=stop, back_off=BackOff(first_ms=60_000, cap_ms=60_000))
    )
    await failing.wait()
    began = time.monotonic()
    stop.set()
    await loop

    assert time.monotonic() - began < 5


async def test_a_loop_with_nothing_to_wait_for_lets_other_tasks_run(telemetry: Telemetry) -> None:
    stop = asyncio.Event()

    async def step() -> None:
        return

    loop = asyncio.create_task(keep_running(step, name="reader", telemetry=telemetry, stop=stop))
    await asyncio.sleep(0)
    stop.set()
    await asyncio.wait_for(loop, 5)
