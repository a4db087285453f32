"""A gate runs what waits at it: so many at once, so many together, and nobody is forgotten."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from infra.streams.reading import Lease
from processors.gates import Gate, Part
from tests.processors.waiting import until


def a_lease(number: int) -> Lease:
    return Lease(0, "stream", f"{number}-0", 1, [])


class Runs:
    """What a gate runs: each part waits until it is let go."""

    def __init__(self) -> None:
        self.parts: list[list[int]] = []
        self.running = 0
        self.most = 0
        self.splits: Callable[[Part], bool] = lambda _part: False
        self._go = asyncio.Semaphore(0)

    async def __call__(self, part: Part) -> list[Part]:
        self.parts.append([int(lease.entry_id[:-2]) for lease in part])
        self.running += 1
        self.most = max(self.most, self.running)
        await self._go.acquire()
        self.running -= 1
        half = len(part) // 2
        return [part[:half], part[half:]] if self.splits(part) else []

    def let_go(self, count: int = 1) -> None:
        for _ in range(count):
            self._go.release()


@pytest.fixture
def runs() -> Runs:
    return Runs()


async def test_so_many_run_at_once_and_the_others_in_their_turn(runs: Runs) -> None:
    gate = Gate(runs, places=2)

    for number in range(5):
        gate.put(a_lease(number))
    await until(lambda: runs.running == 2)
    runs.let_go(5)

    await until(lambda: len(runs.parts) == 5 and runs.running == 0)
    assert (runs.parts, runs.most) == ([[0], [1], [2], [3], [4]], 2)


async def test_a_full_batch_does_not_wait(runs: Runs) -> None:
    gate = Gate(runs, places=1, batch=3, batch_wait_ms=3_600_000)

    for number in range(7):
        gate.put(a_lease(number))
    runs.let_go(2)

    await until(lambda: len(runs.parts) == 2 and runs.running == 0)
    assert runs.parts == [[0, 1, 2], [3, 4, 5]]
    gate.close()


async def test_what_finds_no_company_runs_after_its_wait(runs: Runs) -> None:
    gate = Gate(runs, places=1, batch=100, batch_wait_ms=1)

    for number in range(4):
        gate.put(a_lease(number))
    runs.let_go()

    await until(lambda: runs.parts == [[0, 1, 2, 3]] and runs.running == 0)
    gate.put(a_lease(4))
    runs.let_go()
    await until(lambda: runs.parts == [[0, 1, 2, 3], [4]] and runs.running == 0)


async def test_what_comes_while_all_places_are_taken_runs_together_afterwards(runs: Runs) -> None:
    gate = Gate(runs, places=1, batch=100, batch_wait_ms=0)
    gate.put(a_lease(0))
    await until(lambda: runs.running == 1)

    for number in range(1, 6):
        gate.put(a_lease(number))
        await asyncio.sleep(0)
    runs.let_go(2)

    await until(lambda: len(runs.parts) == 2 and runs.running == 0)
    assert runs.parts == [[0], [1, 2, 3, 4, 5]]


async def test_parts_to_be_run_again_go_first(runs: Runs) -> None:
    gate = Gate(runs, places=1, batch=4, batch_wait_ms=0)
    runs.splits = lambda part: len(part) > 1 and any(lease.entry_id == "2-0" for lease in part)

    for number in range(6):
        gate.put(a_lease(number))
    runs.let_go(6)

    await until(lambda: len(runs.parts) == 6 and runs.running == 0)
    assert runs.parts == [[0, 1, 2, 3], [0, 1], [2, 3], [2], [3], [4, 5]]


async def test_whoever_comes_when_a_task_ends_is_not_forgotten(runs: Runs) -> None:
    gate = Gate(runs, places=1)
    runs.let_go(200)

    for number in range(200):
        gate.put(a_lease(number))
        for _ in range(number % 7):
            await asyncio.sleep(0)

    await until(lambda: len(runs.parts) == 200)


async def test_a_crowd_is_told_how_long_to_wait(runs: Runs) -> None:
    gate = Gate(runs, places=1, crowd=3)
    for number in range(3):
        gate.put(a_lease(number))
    await until(lambda: runs.running == 1)
    assert gate.wait_s == 0.0

    gate.put(a_lease(3))

    assert gate.wait_s == 1.0
    gate.close()
