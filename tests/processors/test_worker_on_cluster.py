"""A worker on a cluster: the same code, several nodes."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Iterator
from pathlib import Path

import pytest

from infra.settings import LogSettings
from infra.streams.keys import Keys
from infra.streams.slots import slot_of_key
from infra.streams.stream import EventStream
from processors import Delivery, Retry, StreamEvent, processor
from schemas.errors import StreamUnavailable
from tests.contracts.clusters import EmbeddedCluster, SlotMove
from tests.events import an_event
from tests.ports import free_port
from tests.processors.conftest import Starter
from tests.processors.waiting import unsettled, until
from tests.sending import until_appended

EVENTS = 200


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[EmbeddedCluster]:
    server = EmbeddedCluster(tmp_path / "cluster", free_port(), "a-test-password")
    try:
        server.start()
        yield server
    finally:
        server.kill()


@pytest.fixture
def log(cluster: EmbeddedCluster) -> LogSettings:
    return LogSettings(url=cluster.url)


@pytest.mark.fault("C7")
async def test_every_event_is_processed_though_a_slot_moves_and_some_fail_once(
    cluster: EmbeddedCluster, stream: EventStream, working: Starter, log: LogSettings, home: Path
) -> None:
    done: list[str] = []
    events = [an_event() for _ in range(EVENTS)]
    failing = {event.id for event in events[::10]}  # more would open the processor's circuit
    move = SlotMove(slot_of_key(Keys(log.prefix, log.shards).ledger(0)), cluster.nodes[0], cluster.nodes[1])

    @processor("*")
    async def fail_once(event: StreamEvent, delivery: Delivery) -> None:
        if delivery.attempt == 1 and event.id in failing:
            raise Retry(after_ms=0)
        done.append(event.id)

    async def send(event: StreamEvent) -> None:
        while True:
            try:
                await stream.append(event)
            except StreamUnavailable:
                await asyncio.sleep(0.02)
            else:
                return

    async with working(fail_once), asyncio.timeout(60):
        await asyncio.gather(*[send(event) for event in events[: EVENTS // 2]])
        sending = asyncio.gather(*[send(event) for event in events[EVENTS // 2 :]])
        await asyncio.to_thread(move.begin)
        while await asyncio.to_thread(move.move_some):
            pass
        await asyncio.to_thread(move.end)
        await sending
        await until(lambda: set(done) == {event.id for event in events})
        await until(lambda: unsettled(log, home) == 0)


async def test_the_shards_of_living_nodes_go_on_while_a_node_is_down(
    cluster: EmbeddedCluster, stream: EventStream, working: Starter, log: LogSettings, home: Path
) -> None:
    """One that dies in the middle of work; its own shard goes on when it is back."""
    for node in cluster.nodes:
        node.ask("CONFIG SET", "cluster-require-full-coverage", "no")
    keys, dead = Keys(log.prefix, log.shards), cluster.nodes[2]
    begun, done = list[str](), list[str]()
    gate = asyncio.Event()

    @processor("*")
    async def fail_once(event: StreamEvent, delivery: Delivery) -> None:
        if event.id in waiting:
            begun.append(event.id)
            await gate.wait()
        if delivery.attempt == 1 and event.id in failing:
            raise Retry(after_ms=1)
        done.append(event.id)

    def events_of(*shards: int, count: int) -> list[StreamEvent]:
        return list(itertools.islice((event for event in iter(an_event, None) if keys.shard_of(event) in shards), count))

    held, lost, living = events_of(3, count=5), events_of(3, count=5), events_of(0, 1, 2, count=60)
    waiting, failing = {event.id for event in held}, {event.id for event in living[::10]}
    async with working(fail_once, lease_ms=20_000), asyncio.timeout(90):
        for event in held:
            await stream.append(event)
        await until(lambda: len(begun) == len(held))
        await asyncio.to_thread(dead.kill)
        for event in living:
            await until_appended(stream, event)
        await until(lambda: set(done) >= {event.id for event in living})
        gate.set()
        await asyncio.to_thread(dead.start)
        for event in lost:
            await until_appended(stream, event)

        await until(lambda: set(done) == {event.id for event in (*held, *lost, *living)})
        await until(lambda: unsettled(log, home) == 0)
    assert len(done) == len(set(done))
