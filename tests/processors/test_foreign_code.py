"""Whatever a processor does, its neighbours run, the group goes on, and its event ends as it should."""

from __future__ import annotations

import asyncio
import contextvars
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from infra.settings import LogSettings
from infra.streams.keys import Keys
from infra.streams.stream import EventStream
from processors import Delivery, Reject, Retry, StreamEvent, processor
from tests.events import an_event
from tests.infra.streams.raw import open_raw
from tests.processors.conftest import Starter
from tests.processors.waiting import letters, unsettled, until


class Unprintable(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no text")


async def reject_with_a_surrogate() -> None:
    raise Reject("caf\udce9")


async def fail_with_a_surrogate() -> None:
    raise OSError("no such file: caf\udce9")


async def await_something_cancelled() -> None:
    task = asyncio.ensure_future(asyncio.Event().wait())
    task.cancel()
    await task


async def cancel_itself() -> None:
    task = asyncio.current_task()
    assert task is not None
    task.cancel()
    await asyncio.sleep(0)


async def cancel_itself_and_fail() -> None:
    task = asyncio.current_task()
    assert task is not None
    task.cancel()
    raise OSError("the cancellation is still to come")


async def raise_what_cannot_be_printed() -> None:
    raise Unprintable


async def exit_the_process() -> None:
    raise SystemExit(3)


async def retry_after_infinity() -> None:
    raise Retry(after_ms=float("inf"))


@pytest.mark.parametrize(
    "misbehave",
    [
        reject_with_a_surrogate,
        fail_with_a_surrogate,
        await_something_cancelled,
        cancel_itself,
        cancel_itself_and_fail,
        raise_what_cannot_be_printed,
        exit_the_process,
        retry_after_infinity,
    ],
    ids=lambda function: function.__name__,
)
async def test_a_misbehaving_processor_harms_only_its_own_event(
    stream: EventStream, working: Starter, log: LogSettings, home: Path, misbehave: Callable[[], Any]
) -> None:
    done: list[str] = []

    @processor("*", max_attempts=2)
    async def act(event: StreamEvent, delivery: Delivery) -> None:
        if event.event_type == "github.bad":
            await misbehave()
        done.append(event.id)

    async with working(act, concurrency=1):
        for number in range(10):
            await stream.append(an_event(event_type="github.bad" if number % 3 == 0 else "github.good"))
        await until(lambda: len(letters(log, home)) == 4 and unsettled(log, home) == 0)

    assert len(done) == 6
    assert unsettled(log, home) == 0


async def test_a_batch_that_cancels_itself_is_run_again_in_halves(
    stream: EventStream, working: Starter, log: LogSettings, home: Path
) -> None:
    @processor("*", max_attempts=1, batch=4, concurrency=1)
    async def act(events: list[StreamEvent], deliveries: list[Delivery]) -> None:
        await cancel_itself()

    async with working(act):
        for _ in range(4):
            await stream.append(an_event())
        await until(lambda: len(letters(log, home)) == 4)

    assert unsettled(log, home) == 0


async def test_what_a_processor_sets_in_its_context_is_not_found_by_the_next(
    stream: EventStream, working: Starter, log: LogSettings, home: Path
) -> None:
    tenant, found = contextvars.ContextVar("tenant", default="nobody"), []

    @processor("*")
    async def act(event: StreamEvent, delivery: Delivery) -> None:
        found.append(tenant.get())
        tenant.set(event.id)
        await asyncio.sleep(0)
        assert tenant.get() == event.id

    async with working(act, concurrency=1):
        for _ in range(5):
            await stream.append(an_event())
        await until(lambda: len(found) == 5 and unsettled(log, home) == 0)

    assert found == ["nobody"] * 5
    assert letters(log, home) == []


async def test_a_generator_that_nobody_runs_is_a_failure_and_no_success(
    stream: EventStream, working: Starter, log: LogSettings, home: Path
) -> None:
    def steps() -> Iterator[int]:
        yield 1

    @processor("*", max_attempts=1)
    def act(event: StreamEvent, delivery: Delivery) -> Iterator[int]:
        return steps()

    async with working(act):
        await stream.append(an_event())
        await until(lambda: len(letters(log, home)) == 1)

    assert "returned a generator" in letters(log, home)[0].error


@pytest.mark.parametrize(("after_ms", "waits_ms"), [(1234.567, 1235), (0.2, 1), (-5, 0)])
def test_a_retry_may_be_given_a_fraction(after_ms: float, waits_ms: int) -> None:
    assert Retry(after_ms=after_ms).after_ms == waits_ms


@pytest.mark.parametrize("field", [{b"timestamp": b"9" * 23}, {b"headers": b"[1]"}, {b"auth_context": b"\xff"}])
async def test_foreign_bytes_in_any_field_are_a_dead_letter_at_the_first_look(
    stream: EventStream, working: Starter, log: LogSettings, home: Path, field: dict[bytes, bytes]
) -> None:
    done: list[str] = []

    @processor("*")
    async def keep(event: StreamEvent, delivery: Delivery) -> None:
        done.append(f"{event.id}:{event.timestamp.year}"[:36])

    event, keys = an_event(), Keys(log.prefix, log.shards)
    await stream.append(event)
    client, name = open_raw(log, home=home), keys.events(keys.shard_of(event), "default")
    ((_, fields),) = client.xrange(name)
    client.xadd(name, {**fields, **field})
    client.close()

    async with working(keep):
        await until(lambda: len(letters(log, home)) == 1)
        await until(lambda: done == [event.id])
    assert (letters(log, home)[0].reason, letters(log, home)[0].attempts) == ("the entry is no event", 0)


async def test_sync_processors_do_not_wait_for_each_other(stream: EventStream, working: Starter, log: LogSettings, home: Path) -> None:
    together = threading.Barrier(24)

    @processor("*", timeout_ms=10_000, max_attempts=1)
    def meet(event: StreamEvent, delivery: Delivery) -> None:
        together.wait(timeout=8)

    async with working(meet, concurrency=24, batch_size=64):
        await asyncio.gather(*[stream.append(an_event()) for _ in range(24)])
        await until(lambda: unsettled(log, home) == 0)

    assert letters(log, home) == []


async def test_a_thread_that_ends_within_the_grace_has_done_its_work(
    stream: EventStream, working: Starter, log: LogSettings, home: Path
) -> None:
    attempts: list[int] = []

    @processor("*", timeout_ms=100)
    def stay(event: StreamEvent, delivery: Delivery) -> None:
        attempts.append(delivery.attempt)
        time.sleep(0.3)

    async with working(stay, grace_ms=60_000):
        await stream.append(an_event())
        await until(lambda: bool(attempts) and unsettled(log, home) == 0)

    assert (attempts, letters(log, home)) == ([1], [])


async def test_an_attempt_that_overstays_is_charged_and_makes_the_worker_leave(
    stream: EventStream, working: Starter, log: LogSettings, home: Path
) -> None:
    release = threading.Event()

    @processor("*", timeout_ms=100, max_attempts=1)
    def stay(event: StreamEvent, delivery: Delivery) -> None:
        release.wait(timeout=30)

    async with working(stay, grace_ms=100):
        await stream.append(an_event())
        await until(lambda: len(letters(log, home)) == 1)
        release.set()

    (letter,) = letters(log, home)
    assert "ran longer than its timeout_ms=100" in letter.reason
    assert unsettled(log, home) == 0


async def test_a_plain_function_that_returns_a_coroutine_is_awaited(stream: EventStream, working: Starter) -> None:
    done: list[str] = []

    async def keep(event: StreamEvent) -> None:
        done.append(event.id)

    @processor("*")
    def wrap(event: StreamEvent, delivery: Delivery) -> Any:
        return keep(event)

    async with working(wrap):
        await stream.append(an_event())
        await until(lambda: len(done) == 1)
