"""What a processor knows of an event that is replayed, and how such events share a worker with those that arrive."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from infra.settings import LogSettings
from processors import Delivery, StreamEvent, processor
from processors.testing import log_server, processing
from tests.processors.endpoint import serving
from tests.processors.test_forward import forwarder

SEEN: list[tuple[str, int, bool, str]] = []


@pytest.fixture(scope="module")
def server() -> Iterator[LogSettings]:
    with log_server() as log:
        yield log


@pytest.fixture(autouse=True)
def nothing_seen() -> None:
    SEEN.clear()


@processor("*")
async def note(event: StreamEvent, delivery: Delivery) -> None:
    SEEN.append((event.id, delivery.attempt, delivery.is_replay, delivery.replay_id))


@processor("*", max_attempts=2)
async def fail(event: StreamEvent, delivery: Delivery) -> None:
    SEEN.append((event.id, delivery.attempt, delivery.is_replay, delivery.replay_id))
    raise ValueError("never")


@processor("*", key=True)
async def note_in_order(event: StreamEvent, delivery: Delivery) -> None:
    SEEN.append((event.id, delivery.attempt, delivery.is_replay, delivery.replay_id))


async def test_a_processor_can_tell_an_event_that_is_replayed_from_one_that_arrived(server: LogSettings) -> None:
    async with processing(note, on=server) as lake:
        event = await lake.send("github.push")
        await lake.run_until_idle()
        replay = await lake.replay(event)
        await lake.run_until_idle()

        assert [(event.id, 1, False, ""), (event.id, 1, True, replay)] == SEEN
        assert [run.event for run in lake.runs] == [event, event]


async def test_retries_of_a_replayed_event_are_told_so_too(server: LogSettings) -> None:
    async with processing(fail, on=server) as lake:
        event = await lake.send("github.push")
        await lake.run_until_idle()
        SEEN.clear()
        replay = await lake.replay(event)
        await lake.run_until_idle()

        assert [(event.id, 1, True, replay), (event.id, 2, True, replay)] == SEEN
        assert len(lake.dead_letters) == 2


async def test_a_group_that_keeps_order_reads_what_is_replayed(server: LogSettings) -> None:
    async with processing(note_in_order, on=server) as lake:
        events = [await lake.send("github.push", key="k") for _ in range(3)]
        await lake.run_until_idle()
        SEEN.clear()
        for event in events:
            await lake.replay(event)
        await lake.run_until_idle()

        assert [event_id for event_id, *_ in SEEN] == [event.id for event in events]


async def test_what_arrives_does_not_wait_behind_a_replay_and_neither_starves(server: LogSettings) -> None:
    async with processing(note, on=server, batch_size=64) as lake:
        old = [await lake.send("github.push", key="one shard") for _ in range(60)]
        await lake.run_until_idle()
        SEEN.clear()
        for event in old:
            await lake.replay(event)
        for _ in range(60):
            await lake.send("github.push", key="one shard")
        await lake.run_until_idle()

        half = SEEN[:60]
        assert sum(not is_replay for _, _, is_replay, _ in half) >= 40
        assert any(is_replay for _, _, is_replay, _ in half)
        assert len(SEEN) == 120


async def test_an_endpoint_is_told_that_an_event_is_replayed(server: LogSettings, home: Path) -> None:
    with serving() as endpoint:
        async with forwarder(endpoint.url, home) as spec, processing(spec, on=server) as lake:
            event = await lake.send("github.push")
            await lake.run_until_idle()
            replay = await lake.replay(event)
            await lake.run_until_idle()

        assert [request.headers.get("x-hooklake-replay") for request in endpoint.requests] == [None, replay]
