from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from infra.settings import LogSettings
from infra.streams.stream import EventStream
from processors import Delivery, Reject, StreamEvent, processor
from processors.circuit import Circuit
from tests.events import an_event
from tests.processors.conftest import Starter
from tests.processors.waiting import letters, unsettled, until


def opened(failures: int = 3) -> Circuit:
    circuit = Circuit(failures_to_open=failures, open_s=10)
    for _ in range(failures):
        circuit.report(ValueError(), now=0)
    return circuit


def test_a_circuit_opens_after_failures_in_a_row_and_says_so_once() -> None:
    circuit = Circuit(failures_to_open=3, open_s=10)

    assert [circuit.report(ValueError(), now=0) for _ in range(5)] == ["", "", "opened", "", ""]
    assert circuit.wait_s(now=4) == 6


def test_a_success_in_between_begins_the_count_anew() -> None:
    circuit = Circuit(failures_to_open=2, open_s=10)
    circuit.report(ValueError(), now=0)
    circuit.report(None, now=0)

    assert circuit.report(ValueError(), now=0) == ""
    assert circuit.wait_s(now=0) == 0


def test_a_rejected_event_is_no_failure_of_the_processor() -> None:
    circuit = Circuit(failures_to_open=1, open_s=10)

    assert circuit.report(Reject("not for us"), now=0) == ""
    assert not circuit.is_open


def test_one_probe_at_a_time_is_let_through_and_its_success_closes() -> None:
    circuit = opened()

    assert circuit.wait_s(now=10) == 0
    assert circuit.wait_s(now=10) > 0
    assert circuit.report(None, now=11) == "closed"
    assert circuit.wait_s(now=11) == 0


def test_each_failed_probe_keeps_it_open_twice_as_long_up_to_a_bound() -> None:
    circuit, now, waits = opened(), 10.0, []
    for _ in range(6):
        assert circuit.wait_s(now=now) == 0
        circuit.report(ValueError(), now=now)
        waits.append(circuit.wait_s(now=now))
        now += waits[-1]

    assert waits == [20, 40, 80, 160, 160, 160]


def test_a_probe_that_never_ran_leaves_its_place_to_the_next() -> None:
    circuit = opened()
    assert circuit.wait_s(now=10) == 0

    circuit.pass_by()

    assert circuit.wait_s(now=10) == 0
    assert circuit.wait_s(now=10) > 0


def test_it_can_be_switched_off() -> None:
    circuit = Circuit(failures_to_open=0, open_s=10)
    for _ in range(100):
        circuit.report(ValueError(), now=0)

    assert circuit.wait_s(now=0) == 0


@pytest.mark.fault("D7")
async def test_an_outage_fills_no_dead_letters_and_everything_runs_when_it_ends(
    stream: EventStream, working: Starter, log: LogSettings, home: Path
) -> None:
    is_down, done, attempts = True, set(), 0

    @processor("*")
    async def call_downstream(event: StreamEvent, delivery: Delivery) -> None:
        nonlocal attempts
        attempts += 1
        if is_down:
            raise ConnectionError("downstream is away")
        done.add(event.id)

    events = [an_event() for _ in range(100)]
    for event in events:
        await stream.append(event)
    async with working(call_downstream, circuit_failures=5, circuit_open_ms=300, concurrency=4, retry_delays_ms=(0, 0, 0)):
        await until(lambda: attempts >= 8)
        tried = attempts
        await asyncio.sleep(0.2)  # the circuit is open: nothing is tried
        assert attempts <= tried + 4
        is_down = False
        await until(lambda: len(done) >= 95 and unsettled(log, home) == 0)

    # What was tried before it opened may have used up its attempts; everything else waited.
    assert len(letters(log, home)) <= 5
    assert len(done) + len(letters(log, home)) == 100


@pytest.mark.control("D7")
async def test_without_a_circuit_an_outage_fills_the_dead_letters(
    stream: EventStream, working: Starter, log: LogSettings, home: Path
) -> None:
    @processor("*")
    async def call_downstream(event: StreamEvent, delivery: Delivery) -> None:
        raise ConnectionError("downstream is away")

    for _ in range(30):
        await stream.append(an_event())
    async with working(call_downstream, circuit_failures=0, concurrency=4, retry_delays_ms=(0, 0, 0)):
        await until(lambda: len(letters(log, home)) == 30)


async def test_an_entry_that_cannot_run_does_not_keep_a_circuit_open(
    stream: EventStream, working: Starter, log: LogSettings, home: Path
) -> None:
    done, is_down = set(), True

    @processor("*")
    async def call_downstream(event: StreamEvent, delivery: Delivery) -> None:
        if is_down:
            raise ConnectionError("downstream is away")
        done.add(event.id)

    options = {"circuit_failures": 1, "circuit_open_ms": 300, "concurrency": 1, "retry_delays_ms": (0,), "max_attempts": 100}
    async with working(call_downstream, **options):
        await stream.append(an_event(key="one shard"))
        await until(lambda: unsettled(log, home) == 1)
        # Urgent, so that it is the next one to be let through, and of a version that nobody can read.
        await stream.append(an_event(version=2, priority="urgent", key="one shard"))
        is_down = False
        await until(lambda: len(done) == 1)


async def test_another_processor_of_the_group_goes_on(stream: EventStream, working: Starter, log: LogSettings, home: Path) -> None:
    done: set[str] = set()

    @processor("github.down")
    async def down(event: StreamEvent, delivery: Delivery) -> None:
        raise ConnectionError("downstream is away")

    @processor("github.up")
    async def up(event: StreamEvent, delivery: Delivery) -> None:
        done.add(event.id)

    for _ in range(50):
        await stream.append(an_event(event_type="github.down"))
    for _ in range(50):
        await stream.append(an_event(event_type="github.up"))
    async with working(down, up, circuit_failures=3, circuit_open_ms=60_000, batch_size=10, concurrency=2):
        await until(lambda: len(done) == 50)
