from __future__ import annotations

import asyncio

import pytest

from processors.dispatch import Deadlines


async def sleep_until_cancelled(deadlines: Deadlines, *, timeout_s: float, work_s: float = 60) -> str:
    task = asyncio.current_task()
    assert task is not None
    deadlines.begin(task, timeout_s=timeout_s)
    try:
        await asyncio.sleep(work_s)
    except asyncio.CancelledError:
        return "too slow" if deadlines.end(task) else "cancelled"
    return "too slow" if deadlines.end(task) else "done"


async def test_each_attempt_is_cancelled_at_its_own_deadline() -> None:
    deadlines = Deadlines()

    async with asyncio.timeout(20):
        outcomes = await asyncio.gather(
            sleep_until_cancelled(deadlines, timeout_s=30, work_s=0.2),
            sleep_until_cancelled(deadlines, timeout_s=0.05),
            sleep_until_cancelled(deadlines, timeout_s=0.1),
            sleep_until_cancelled(deadlines, timeout_s=0.01),
        )

    assert list(outcomes) == ["done", "too slow", "too slow", "too slow"]


async def test_a_cancellation_from_elsewhere_is_not_taken_for_a_deadline() -> None:
    task = asyncio.create_task(sleep_until_cancelled(Deadlines(), timeout_s=30))
    await asyncio.sleep(0.01)

    task.cancel()

    assert await task == "cancelled"
    assert task.cancelling() == 1


async def test_a_deadline_leaves_no_cancellation_behind() -> None:
    task = asyncio.create_task(sleep_until_cancelled(Deadlines(), timeout_s=0.01))

    assert await asyncio.wait_for(task, 20) == "too slow"
    assert task.cancelling() == 0


async def test_a_member_of_the_pool_can_have_one_deadline_after_the_other() -> None:
    deadlines = Deadlines()

    async def many() -> list[str]:
        return [await sleep_until_cancelled(deadlines, timeout_s=timeout_s, work_s=0.05) for timeout_s in (5, 0.01, 5, 0.01)]

    assert await asyncio.wait_for(many(), 20) == ["done", "too slow", "done", "too slow"]


@pytest.mark.parametrize("timeout_s", [0.0, -1.0])
async def test_a_deadline_that_has_passed_is_met_at_once(timeout_s: float) -> None:
    assert await asyncio.wait_for(sleep_until_cancelled(Deadlines(), timeout_s=timeout_s), 20) == "too slow"
