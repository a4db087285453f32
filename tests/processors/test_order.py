"""Events of one key run one after the other, in their order, over retries, restarts and several workers."""

from __future__ import annotations

import asyncio
import itertools
from collections import defaultdict
from itertools import pairwise
from pathlib import Path

import pytest

from infra.settings import LogSettings
from infra.streams.keys import Keys
from infra.streams.reading import Lease
from infra.streams.stream import EventStream
from processors import Delivery, Reject, StreamEvent, processor
from processors.holding import fair_share
from processors.order import Lanes
from processors.registry import ATTRIBUTE, Registry
from tests.events import an_event
from tests.infra.streams.raw import open_raw
from tests.processors.conftest import Starter
from tests.processors.waiting import letters, take_and_die, unsettled, until


def numbered(key: str, number: int) -> StreamEvent:
    return an_event(key=key, payload=str(number).encode())


class Runs:
    """Which events ran, by key, and whether two of one key ever ran at once."""

    def __init__(self) -> None:
        self.by_key: dict[str, list[int]] = defaultdict(list)
        self.at_once: set[str] = set()
        self._running: set[str] = set()

    async def run(self, event: StreamEvent) -> None:
        if event.key in self._running:
            self.at_once.add(event.key)
        self._running.add(event.key)
        await asyncio.sleep(0.001)
        self._running.discard(event.key)
        self.by_key[event.key].append(int(event.payload))

    @property
    def count(self) -> int:
        return sum(len(numbers) for numbers in self.by_key.values())

    @property
    def out_of_order(self) -> list[str]:
        """Keys of which an event ran before an earlier one had ever run."""
        return [
            key for key, numbers in self.by_key.items() if any(b > max(numbers[: i + 1]) + 1 for i, (_, b) in enumerate(pairwise(numbers)))
        ]


async def test_events_of_one_key_run_in_their_order(stream: EventStream, working: Starter, log: LogSettings, home: Path) -> None:
    runs = Runs()

    @processor("*", key=True)
    async def keep(event: StreamEvent, delivery: Delivery) -> None:
        await runs.run(event)

    for number in range(30):
        for key in ("a", "b", "c", "d"):
            await stream.append(numbered(key, number))
    async with working(keep):
        await until(lambda: runs.count == 120)

    assert all(numbers == list(range(30)) for numbers in runs.by_key.values())
    assert runs.at_once == set()
    assert unsettled(log, home) == 0


async def test_a_failing_event_holds_up_its_own_key_and_no_other(
    stream: EventStream, working: Starter, log: LogSettings, home: Path
) -> None:
    ran: list[tuple[str, int, int]] = []

    @processor("*", key=True)
    async def fail_twice(event: StreamEvent, delivery: Delivery) -> None:
        number = int(event.payload)
        ran.append((event.key, number, delivery.attempt))
        if (event.key, number) == ("bad", 0) and delivery.attempt < 3:
            raise ValueError("not yet")

    for number in range(3):
        await stream.append(numbered("bad", number))
        await stream.append(numbered("good", number))
    async with working(fail_twice, retry_delays_ms=(200, 200)):
        await until(lambda: len(ran) == 8)

    assert [one for one in ran if one[0] == "bad"] == [("bad", 0, 1), ("bad", 0, 2), ("bad", 0, 3), ("bad", 1, 1), ("bad", 2, 1)]
    assert [one for one in ran if one[0] == "good"] == [("good", number, 1) for number in range(3)]
    assert ran.index(("good", 2, 1)) < ran.index(("bad", 0, 3))
    assert (letters(log, home), unsettled(log, home)) == ([], 0)


async def test_the_next_of_a_key_runs_when_the_one_before_it_is_a_dead_letter(
    stream: EventStream, working: Starter, log: LogSettings, home: Path
) -> None:
    ran: list[int] = []

    @processor("*", key=True)
    async def reject_first(event: StreamEvent, delivery: Delivery) -> None:
        ran.append(int(event.payload))
        if event.payload == b"0":
            raise Reject("never")
        if event.payload == b"1":
            raise ValueError("again and again")

    for number in range(3):
        await stream.append(numbered("k", number))
    async with working(reject_first, max_attempts=2):
        await until(lambda: 2 in ran)
        await until(lambda: unsettled(log, home) == 0)

    assert ran == [0, 1, 1, 2]
    assert sorted(letter.attempts for letter in letters(log, home)) == [1, 2]


async def test_several_workers_share_the_shards_and_keep_the_order(
    stream: EventStream, working: Starter, log: LogSettings, home: Path
) -> None:
    runs = Runs()

    @processor("*", key=True)
    async def keep(event: StreamEvent, delivery: Delivery) -> None:
        await runs.run(event)

    keys, each = [f"k{index}" for index in range(8)], 40
    async with working(keep, consumer="c1"):
        for number in range(each):
            await asyncio.gather(*(stream.append(numbered(key, number)) for key in keys))
            if number == 10:
                second = working(keep, consumer="c2")
                await second.__aenter__()
        await until(lambda: runs.count >= each * len(keys))
        await until(lambda: unsettled(log, home) == 0)
        await second.__aexit__(None, None, None)

    assert {key: sorted(set(numbers)) for key, numbers in runs.by_key.items()} == {key: list(range(each)) for key in keys}
    assert (runs.out_of_order, runs.at_once) == ([], set())


async def test_what_a_dead_holder_left_comes_before_anything_new(
    stream: EventStream, working: Starter, log: LogSettings, home: Path
) -> None:
    ran: list[int] = []

    @processor("*", key=True)
    async def keep(event: StreamEvent, delivery: Delivery) -> None:
        ran.append(int(event.payload))

    await take_and_die(stream, log, home, events=[numbered("k", number) for number in range(5)], consumer="dead")
    for number in range(5, 8):
        await stream.append(numbered("k", number))
    async with working(keep, lease_ms=60_000):  # nobody waits for the dead one's leases: the shard is free
        await until(lambda: len(ran) == 8)

    assert ran == list(range(8))


async def test_attempts_are_remembered_over_a_restart(stream: EventStream, working: Starter, log: LogSettings, home: Path) -> None:
    attempts: list[int] = []

    @processor("*", key=True, max_attempts=3)
    async def fail(event: StreamEvent, delivery: Delivery) -> None:
        attempts.append(delivery.attempt)
        raise ValueError("never")

    await stream.append(numbered("k", 0))
    async with working(fail, retry_delays_ms=(0, 3_600_000)):
        await until(lambda: attempts == [1, 2])
    async with working(fail, retry_delays_ms=(0, 0)):
        await until(lambda: len(letters(log, home)) == 1)

    assert attempts == [1, 2, 3]
    assert letters(log, home)[0].reason == "failed 3 times: ValueError: never"


@pytest.mark.parametrize(("members", "share"), [(1, 4), (2, 2), (3, 2), (4, 1), (9, 1)])
def test_shards_are_shared_evenly_and_none_is_left(members: int, share: int) -> None:
    assert fair_share(4, members=members) == share
    assert members * share >= 4


def a_lease(entry: int, *, key: str = "k") -> Lease:
    return Lease(0, "stream", f"{entry}-0", 1, [b"key", key.encode(), b"event_type", b"github.push"])


def test_a_lane_lets_one_run_and_the_next_follow() -> None:
    @processor("*", key=True)
    def keep(event: StreamEvent, delivery: Delivery) -> None: ...

    lanes = Lanes(Registry([getattr(keep, ATTRIBUTE)]))
    first, second, third, other = a_lease(1), a_lease(2), a_lease(3), a_lease(4, key="other")

    assert [lanes.admit(lease) for lease in (first, second, third, other)] == [True, False, False, True]
    assert lanes.leave(second) is None  # lost while it waited
    assert lanes.leave(first) is third
    assert lanes.leave(third) is None
    assert lanes.admit(a_lease(5))


def test_an_event_without_a_key_waits_for_nobody() -> None:
    @processor("*", key=True)
    def keep(event: StreamEvent, delivery: Delivery) -> None: ...

    lanes = Lanes(Registry([getattr(keep, ATTRIBUTE)]))

    assert [lanes.admit(a_lease(number, key="")) for number in range(2)] == [True, True]


async def test_a_shard_is_not_given_up_while_a_read_of_it_is_under_way(
    stream: EventStream, working: Starter, log: LogSettings, home: Path
) -> None:
    """Whatever such a read hands out would stay pending with a worker that may not run it, and later ones would overtake it."""
    runs = Runs()

    @processor("*", key=True)
    async def keep(event: StreamEvent, delivery: Delivery) -> None:
        await runs.run(event)

    client, lease = open_raw(log, home=home), Keys(log.prefix, log.shards).lease

    def waiting_readers() -> int:
        return sum(one["cmd"] == "xreadgroup" and "b" in one["flags"] for one in client.client_list())

    async with working(keep, consumer="c1", block_ms=3000):
        await until(lambda: {client.get(lease(shard, "g")) for shard in (0, 1)} == {b"c1"} and waiting_readers() == 1)
        async with working(keep, consumer="c2", block_ms=3000):
            await until(lambda: {client.get(lease(shard, "g")) for shard in (0, 1)} == {b"c1", b"c2"} and waiting_readers() == 2)
            for number, key in itertools.product(range(10), "abcd"):
                await stream.append(numbered(key, number))
            await until(lambda: runs.count == 40)
    client.close()

    assert all(numbers == list(range(10)) for numbers in runs.by_key.values())
