"""Middleware is around every attempt, whichever way its processor runs, and what it raises is the attempt's own failure."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator

import pytest

from infra.settings import LogSettings
from processors import Delivery, Middleware, Next, Reject, StreamEvent, Work, processor
from processors.registry import ATTRIBUTE, Registry
from processors.testing import log_server, processing
from schemas.errors import ConfigError


@pytest.fixture(scope="module")
def server() -> Iterator[LogSettings]:
    with log_server() as log:
        yield log


class Noting(Middleware):
    """Notes what comes before and after it."""

    def __init__(self, name: str, *, notes: list[str]) -> None:
        self._name = name
        self._notes = notes

    async def around(self, work: Work, run: Next) -> None:
        (delivery,) = work.deliveries
        self._notes.append(f"{self._name} before attempt {delivery.attempt} of {work.events[0].event_type}")
        try:
            await run()
        finally:
            self._notes.append(f"{self._name} after")


class Refusing(Middleware):
    async def around(self, work: Work, run: Next) -> None:
        raise Reject(f"{work.processor.rpartition('.')[2]} is switched off")


class Skipping(Middleware):
    async def around(self, work: Work, run: Next) -> None:
        pass


@pytest.mark.parametrize("is_async", [True, False])
async def test_the_first_is_outermost(server: LogSettings, is_async: bool) -> None:
    notes: list[str] = []
    around = [Noting("outer", notes=notes), Middleware(), Noting("inner", notes=notes)]

    @processor("test.async", middleware=around)
    async def on_the_loop(event: StreamEvent, delivery: Delivery) -> None:
        notes.append("run")

    @processor("test.thread", middleware=around)
    def in_a_thread(event: StreamEvent, delivery: Delivery) -> None:
        assert threading.current_thread() is not threading.main_thread()
        notes.append("run")

    name = "async" if is_async else "thread"
    async with processing(on_the_loop, in_a_thread, on=server) as lake:
        await lake.send(f"test.{name}")
        await lake.run_until_idle()

        said = f"before attempt 1 of test.{name}"
        assert notes == [f"outer {said}", f"inner {said}", "run", "inner after", "outer after"]
        assert [run.error for run in lake.runs] == [None]


async def test_what_it_raises_decides_about_the_event(server: LogSettings) -> None:
    @processor("*", middleware=[Refusing()])
    async def never(event: StreamEvent, delivery: Delivery) -> None:
        raise AssertionError("it ran")

    async with processing(never, on=server) as lake:
        await lake.send("test.one")
        await lake.run_until_idle()

        assert ([letter.reason for letter in lake.dead_letters], lake.runs) == (["rejected: never is switched off"], [])


async def test_an_attempt_that_it_does_not_run_succeeds(server: LogSettings) -> None:
    @processor("*", middleware=[Skipping()])
    def never(event: StreamEvent, delivery: Delivery) -> None:
        raise AssertionError("it ran")

    async with processing(never, on=server) as lake:
        await lake.send("test.one")
        await lake.run_until_idle()

        assert (lake.dead_letters, lake.runs) == ([], [])


async def test_its_time_counts(server: LogSettings) -> None:
    class Hanging(Middleware):
        async def around(self, work: Work, run: Next) -> None:
            await asyncio.sleep(60)

    @processor("*", middleware=[Hanging()], timeout_ms=50, max_attempts=1)
    async def quick(event: StreamEvent, delivery: Delivery) -> None:
        pass

    async with processing(quick, on=server) as lake:
        await lake.send("test.one")
        await lake.run_until_idle()

        assert ["ran longer than its timeout_ms=50" in letter.reason for letter in lake.dead_letters] == [True]


def test_without_middleware_the_function_itself_is_called() -> None:
    @processor("*")
    async def bare(event: StreamEvent, delivery: Delivery) -> None:
        pass

    spec = Registry([getattr(bare, ATTRIBUTE)]).match("test.one")

    assert spec is not None
    assert spec.function is bare


def test_a_class_in_the_place_of_an_instance_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"it is no Middleware; write an instance, as in Timing\(\)"):
        processor("*", middleware=[Middleware])  # type: ignore[list-item]
