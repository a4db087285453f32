"""Processors that take batches: events run together, and each is charged for its own failures only."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from infra.settings import LogSettings
from infra.streams.stream import EventStream
from processors import Delivery, Middleware, Next, Reject, Retry, SomeFailed, StreamEvent, Work, processor
from processors.testing import Lake, log_server, processing
from tests.events import an_event
from tests.processors.conftest import Starter
from tests.processors.waiting import take_and_die, unsettled, until


@pytest.fixture(scope="module")
def server() -> Iterator[LogSettings]:
    with log_server() as log:
        yield log


async def send_with_poison(lake: Lake, *, events: int = 9) -> StreamEvent:
    """The poison stands in the middle of the others."""
    sent = [await lake.send("test.poison" if number == events // 2 else "test.good", key="one shard") for number in range(events)]
    return sent[events // 2]


def refuse_poison(events: list[StreamEvent]) -> None:
    if any(event.event_type == "test.poison" for event in events):
        raise ValueError("there is poison among them")


async def test_what_waits_is_run_together(server: LogSettings) -> None:
    sizes: list[int] = []

    @processor("*", batch=4)
    async def note(events: list[StreamEvent], deliveries: list[Delivery]) -> None:
        assert [event.id for event in events] == [delivery.event_id for delivery in deliveries]
        sizes.append(len(events))

    async with processing(note, on=server) as lake:
        sent = [await lake.send("test.one") for _ in range(10)]
        await lake.run_until_idle()

        assert (sum(sizes), max(sizes)) == (10, 4)
        assert {run.event.id for run in lake.runs} == {event.id for event in sent}


@pytest.mark.parametrize("is_async", [True, False])
@pytest.mark.parametrize("max_attempts", [1, 3])
async def test_poison_in_a_batch_is_found_and_nobody_else_is_charged(server: LogSettings, is_async: bool, max_attempts: int) -> None:
    async def on_the_loop(events: list[StreamEvent], deliveries: list[Delivery]) -> None:
        refuse_poison(events)

    def in_a_thread(events: list[StreamEvent], deliveries: list[Delivery]) -> None:
        refuse_poison(events)

    index = processor("*", batch=9, max_attempts=max_attempts, retry=(0,))(on_the_loop if is_async else in_a_thread)
    async with processing(index, on=server) as lake:
        poison = await send_with_poison(lake)
        await lake.run_until_idle()

        (letter,) = lake.dead_letters
        assert (letter.event_id, letter.attempts, "there is poison" in letter.reason) == (poison.id, max_attempts, True)
        done = [run for run in lake.runs if run.error is None]
        assert {run.attempt for run in done} == {1}
        assert set(Counter(run.event.id for run in done).values()) == {1}
        assert len(done) == 8


async def test_single_events_of_a_batch_can_fail(server: LogSettings) -> None:
    @processor("*", batch=10)
    async def choose(events: list[StreamEvent], deliveries: list[Delivery]) -> None:
        errors: dict[str, BaseException] = {event.id: Reject("no") for event in events if event.event_type == "test.poison"}
        errors |= {one.event_id: Retry(after_ms=1000) for one in deliveries if one.event_id == slow.id and one.attempt == 1}
        if errors:
            raise SomeFailed(errors)

    async with processing(choose, on=server) as lake:
        poison = await send_with_poison(lake)
        slow = await lake.send("test.slow", key="one shard")
        await lake.run_until_idle()
        assert await lake.waiting() == 1
        await lake.advance(1000)
        await lake.run_until_idle()

        assert [(letter.event_id, letter.reason) for letter in lake.dead_letters] == [(poison.id, "rejected: no")]
        assert Counter(run.event.id for run in lake.runs)[slow.id] == 2
        assert len(lake.runs) == 11  # nobody was run again for the others' sake


async def test_a_failure_that_names_events_of_no_batch_is_the_whole_batch_s(server: LogSettings) -> None:
    @processor("*", batch=10, max_attempts=1)
    async def confuse(events: list[StreamEvent], deliveries: list[Delivery]) -> None:
        if any(event.event_type == "test.poison" for event in events):
            raise SomeFailed({"another": ValueError("who?")})

    async with processing(confuse, on=server) as lake:
        poison = await send_with_poison(lake)
        await lake.run_until_idle()

        assert [letter.event_id for letter in lake.dead_letters] == [poison.id]


async def test_a_batch_that_takes_too_long_is_halved_too(server: LogSettings) -> None:
    @processor("*", batch=5, timeout_ms=100, max_attempts=1)
    async def hang(events: list[StreamEvent], deliveries: list[Delivery]) -> None:
        if any(event.event_type == "test.poison" for event in events):
            await asyncio.sleep(60)

    async with processing(hang, on=server) as lake:
        poison = await send_with_poison(lake, events=5)
        await lake.run_until_idle()

        (letter,) = lake.dead_letters
        assert (letter.event_id, "ran longer than its timeout_ms=100" in letter.reason) == (poison.id, True)


async def test_each_delivery_of_a_batch_writes_its_own_and_once(server: LogSettings) -> None:
    @processor("*", batch=9, max_attempts=2, retry=(0,))
    async def tally(events: list[StreamEvent], deliveries: list[Delivery]) -> None:
        for delivery in deliveries:
            delivery.once.count("done", delivery.event_id)
        refuse_poison(events)

    async with processing(tally, on=server) as lake:
        poison = await send_with_poison(lake)
        await lake.run_until_idle()

        counts = lake.once.counts("done")
        assert (len(counts), set(counts.values()), poison.id in counts) == (8, {1}, False)


async def test_middleware_is_around_the_whole_batch(server: LogSettings) -> None:
    seen: list[tuple[int, int]] = []

    class Noting(Middleware):
        async def around(self, work: Work, run: Next) -> None:
            seen.append((len(work.events), len(work.deliveries)))
            await run()

    @processor("*", batch=6, batch_wait_ms=20_000, middleware=[Noting()])
    def index(events: list[StreamEvent], deliveries: list[Delivery]) -> None:
        pass

    async with processing(index, on=server) as lake:
        for _ in range(6):
            await lake.send("test.one")
        await lake.run_until_idle()

        assert seen == [(6, 6)]


async def test_batches_keep_the_order_of_a_key(server: LogSettings) -> None:
    order: list[str] = []

    @processor("*", batch=10, key=True, retry=(0,))
    async def index(events: list[StreamEvent], deliveries: list[Delivery]) -> None:
        assert len({event.key for event in events}) == len(events)
        if any(delivery.attempt == 1 and event.repository == "2" for event, delivery in zip(events, deliveries, strict=True)):
            raise ValueError("once")
        order.extend(event.repository for event in events if event.key == "a")

    async with processing(index, on=server) as lake:
        for number in range(5):
            await lake.send("test.one", key="a", repository=str(number))
            await lake.send("test.one", key=f"b{number}")
        await lake.run_until_idle()

        assert (order, lake.dead_letters) == (["0", "1", "2", "3", "4"], [])


async def test_so_many_attempts_of_a_processor_run_at_once_and_others_pass_by(server: LogSettings) -> None:
    running, most, quick_done = 0, 0, asyncio.Event()

    @processor("test.slow", concurrency=2)
    async def slow(event: StreamEvent, delivery: Delivery) -> None:
        nonlocal running, most
        running += 1
        most = max(most, running)
        await quick_done.wait()
        running -= 1

    @processor("test.quick")
    async def quick(event: StreamEvent, delivery: Delivery) -> None:
        await until(lambda: running == 2)
        quick_done.set()

    async with processing(slow, quick, on=server, concurrency=4) as lake:
        for _ in range(20):
            await lake.send("test.slow")
        await lake.send("test.quick")
        await lake.run_until_idle()

        assert (most, len(lake.runs)) == (2, 21)


async def test_a_crowd_at_a_processor_makes_room_for_the_others(server: LogSettings) -> None:
    quick_done = asyncio.Event()

    @processor("test.slow", concurrency=1)
    async def slow(event: StreamEvent, delivery: Delivery) -> None:
        await quick_done.wait()

    @processor("test.quick")
    async def quick(event: StreamEvent, delivery: Delivery) -> None:
        quick_done.set()

    async with processing(slow, quick, on=server, batch_size=8, concurrency=4) as lake:
        for _ in range(100):
            await lake.send("test.slow")
        await lake.send("test.quick")
        while len(lake.runs) < 101:
            await lake.run_until_idle()
            await lake.advance(60_000)

        assert {(run.attempt, run.error) for run in lake.runs} == {(1, None)}


@pytest.mark.parametrize("batch", [None, 2])
async def test_what_is_taken_over_has_no_place_beside_those_of_its_gate(
    stream: EventStream, working: Starter, log: LogSettings, home: Path, batch: int | None
) -> None:
    running, at_once, left = 0, 0, [an_event() for _ in range(3)]
    company: dict[str, int] = {}

    @processor("*", concurrency=1, batch=batch)
    async def act(events: Any, deliveries: Any) -> None:
        nonlocal running, at_once
        running += 1
        at_once = max(at_once, running)
        company.update({event.id: len(events) for event in events} if isinstance(events, list) else {events.id: 1})
        await asyncio.sleep(0.05)  # The gate is busy for longer than it takes until the first one is taken over.
        running -= 1

    await take_and_die(stream, log, home, events=left, consumer="c1")
    for _ in range(40):
        await stream.append(an_event())
    async with working(act):
        await until(lambda: len(company) == 43 and unsettled(log, home) == 0)

    assert at_once == 1
    assert {company[event.id] for event in left} == {1}
