"""`delivery.once`: what an attempt may write, and that only attempts which succeed write anything."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator

import pytest

from infra.settings import LogSettings
from infra.streams.once import LARGEST_COUNT, OnceWrite
from processors import Delivery, Reject, StreamEvent, processor
from processors.once import MOST_BYTES, MOST_WRITES, Once
from processors.testing import log_server, processing


@pytest.fixture(scope="module")
def server() -> Iterator[LogSettings]:
    with log_server() as log:
        yield log


def test_what_was_written_to_the_same_place_before_takes_no_room() -> None:
    once = Once()
    for number in range(1100):
        once.set("head", "x" * 1000)
        once.count("lines", by=number)

    once.set("head", "y" * (MOST_BYTES - 100))

    assert {write.name for write in once.end()} == {"head", "lines"}


def test_a_write_that_is_refused_is_not_made() -> None:
    once = Once()
    once.set("head", "small")

    with pytest.raises(ValueError, match="may write"):
        once.set("head", "x" * (MOST_BYTES + 1))

    assert once.end() == (OnceWrite("values", "head", "", "small"),)


def test_writes_to_one_place_become_one() -> None:
    once = Once()
    once.count("pushes")
    once.count("pushes", by=4)
    once.count("pushes", "octo/hello", by=-1)
    once.set("head", "old")
    once.set("head", "new")
    once.add("repositories", "octo/hello")
    once.add("repositories", "octo/hello")

    assert once.end() == (
        OnceWrite("counts", "pushes", "", "5"),
        OnceWrite("counts", "pushes", "octo/hello", "-1"),
        OnceWrite("values", "head", "", "new"),
        OnceWrite("members", "repositories", "octo/hello", ""),
    )


@pytest.mark.parametrize(
    ("write", "reason"),
    [
        (lambda once: once.count("a:b"), "is no name"),
        (lambda once: once.count("pushes", by=1.5), "whole numbers"),
        (lambda once: once.count("pushes", by=True), "whole numbers"),
        (lambda once: once.count("pushes", by=LARGEST_COUNT + 1), "counts go up to"),
        (lambda once: once.set("head", "\ud800"), "surrogates not allowed"),
        (lambda once: once.set("head", "x" * (MOST_BYTES + 1)), "bytes; put large ones elsewhere"),
        (lambda once: [once.add("all", str(number)) for number in range(MOST_WRITES + 1)], "may write"),
    ],
)
def test_what_cannot_be_stored_fails_in_the_attempt(write: Callable[[Once], None], reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        write(Once())


def test_nothing_is_written_after_the_attempt() -> None:
    once = Once()
    once.end()

    with pytest.raises(ValueError, match="the attempt is over"):
        once.count("pushes")


async def test_attempts_that_fail_write_nothing(server: LogSettings) -> None:
    @processor("test.retried")
    def retried(event: StreamEvent, delivery: Delivery) -> None:
        delivery.once.count("runs", event.event_type)
        if delivery.attempt < 3:
            raise ValueError("not yet")

    @processor("test.rejected")
    async def rejected(event: StreamEvent, delivery: Delivery) -> None:
        delivery.once.count("runs", event.event_type)
        raise Reject("never")

    @processor("test.slow", timeout_ms=50, max_attempts=1)
    async def slow(event: StreamEvent, delivery: Delivery) -> None:
        delivery.once.count("runs", event.event_type)
        await asyncio.sleep(60)

    async with processing(retried, rejected, slow, on=server, retry_delays_ms=(0,)) as lake:
        for name in ("retried", "rejected", "slow"):
            await lake.send(f"test.{name}")
        await lake.run_until_idle()

        assert len(lake.runs) == 5
        assert lake.once.counts("runs") == {"test.retried": 1}


async def test_a_write_that_cannot_be_stored_makes_a_dead_letter_of_its_event(server: LogSettings) -> None:
    @processor("*")
    async def add(event: StreamEvent, delivery: Delivery) -> None:
        delivery.once.add("seen", event.id)
        delivery.once.count("total", by=LARGEST_COUNT)

    async with processing(add, on=server) as lake:
        first, second = await lake.send("test.one"), await lake.send("test.two")
        await lake.run_until_idle()

        assert (lake.once.members("seen"), lake.once.counts("total")) == ({first.id}, {"": LARGEST_COUNT})
        (letter,) = lake.dead_letters
        assert (letter.event_id, letter.attempts) == (second.id, 1)
        assert "the count total cannot go from" in letter.reason
