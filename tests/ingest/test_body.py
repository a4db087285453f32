"""How long a body is waited for, and how much longer where its sender may be late because this process was."""

from __future__ import annotations

import asyncio

import pytest
from starlette.types import Message

from infra.running.pulse import Pulse
from ingest.body import in_time
from schemas.errors import TooSlow

BODY: Message = {"type": "http.request", "body": b"{}", "more_body": False}
SOON_S = 0.1


async def receive_soon() -> Message:
    await asyncio.sleep(SOON_S)
    return BODY


def held_up() -> Pulse:
    """Until a moment ago."""
    pulse, now_s = Pulse(), asyncio.get_running_loop().time()
    pulse.beat(now_s - 6)
    pulse.beat(now_s)
    return pulse


async def test_a_body_that_is_late_is_too_slow() -> None:
    receive = in_time(receive_soon, timeout_ms=20, pulse=Pulse())

    with pytest.raises(TooSlow):
        await receive()


async def test_a_body_that_is_late_because_we_were_is_waited_for() -> None:
    receive = in_time(receive_soon, timeout_ms=20, pulse=held_up())

    assert await receive() == BODY


async def test_what_came_while_the_process_was_held_up_is_received() -> None:
    looks = 0

    async def receive_what_came() -> Message:
        nonlocal looks
        looks += 1
        if looks == 1:  # The timers of a loop that stood still are due before anything is read.
            await asyncio.Event().wait()
        return BODY

    assert await in_time(receive_what_came, timeout_ms=20, pulse=Pulse())() == BODY
    assert looks == 2


async def test_the_time_is_that_of_the_whole_body() -> None:
    receive = in_time(receive_soon, timeout_ms=int(20_000 * SOON_S), pulse=Pulse())
    assert await receive() == BODY

    await asyncio.sleep(20 * SOON_S)  # The time itself is what is tried.

    with pytest.raises(TooSlow):
        await receive()
