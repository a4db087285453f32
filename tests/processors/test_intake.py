"""What a worker takes in, when it stops taking in, and what it takes over without charging anybody."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from infra.running.embedded import EmbeddedServer
from infra.settings import LogSettings
from infra.streams import groups, leases
from infra.streams.connection import open_pipeline
from infra.streams.entries import encode
from infra.streams.keys import Keys
from infra.streams.reading import GroupReader
from infra.streams.stream import EventStream
from processors import Delivery, StreamEvent, intake, processor
from schemas.event import Priority
from tests.events import an_event
from tests.infra.streams.raw import open_raw
from tests.ports import free_port
from tests.processors.conftest import Starter
from tests.processors.waiting import letters, take_and_die, unsettled, until


@pytest.fixture
def own_server(tmp_path: Path) -> Iterator[EmbeddedServer]:
    server = EmbeddedServer(tmp_path / "own", free_port(), password="a-test-password")
    server.start()
    yield server
    os.kill(server.pid, signal.SIGCONT)
    server.kill()


@pytest.fixture
def own_log(own_server: EmbeddedServer) -> LogSettings:
    return LogSettings(url=own_server.url, timeout_ms=500, shards=1)


async def test_a_worker_never_holds_more_than_six_batches(stream: EventStream, working: Starter, log: LogSettings, home: Path) -> None:
    most = 0

    @processor("*")
    async def look(event: StreamEvent, delivery: Delivery) -> None:
        nonlocal most
        most = max(most, 42 - worker.hand.room)
        await asyncio.sleep(0)

    async with working(look, batch_size=7, concurrency=7) as worker:
        await asyncio.gather(*[stream.append(an_event()) for _ in range(200)])
        await until(lambda: unsettled(log, home) == 0)

    assert 1 < most <= 42


async def test_an_urgent_event_does_not_wait_until_a_full_hand_is_empty(stream: EventStream, working: Starter) -> None:
    ran: list[str] = []

    @processor("*")
    async def slow(event: StreamEvent, delivery: Delivery) -> None:
        ran.append(event.priority.value)
        await asyncio.sleep(0.05)

    await asyncio.gather(*[stream.append(an_event(priority=Priority.LOW)) for _ in range(200)])
    async with working(slow, batch_size=32, concurrency=2) as worker:
        await until(lambda: worker.hand.room < 192 and len(ran) >= 4)
        await stream.append(an_event(priority=Priority.URGENT))
        before = len(ran)
        await until(lambda: "urgent" in ran)
        overtaken_by = ran.index("urgent") - before

    # Two run at a time, and one look for urgent entries fits into each run.
    assert overtaken_by <= 15


async def test_an_event_does_not_wait_until_the_streams_of_a_lower_class_are_empty(stream: EventStream, working: Starter) -> None:
    ran: list[str] = []

    @processor("*")
    async def slow(event: StreamEvent, delivery: Delivery) -> None:
        ran.append(event.priority.value)
        await asyncio.sleep(0.01)

    await asyncio.gather(*[stream.append(an_event(priority=Priority.LOW)) for _ in range(600)])
    async with working(slow, batch_size=2, concurrency=2):
        await until(lambda: len(ran) >= 300)
        await stream.append(an_event())
        await until(lambda: len(ran) == 601)

    # With so little room the classes take turns, so that some go first.
    assert ran.index("default") < 500


async def test_a_small_hand_does_not_wait_for_its_slowest(stream: EventStream, working: Starter) -> None:
    done: list[str] = []
    release = asyncio.Event()

    @processor("*")
    async def act(event: StreamEvent, delivery: Delivery) -> None:
        if event.event_type == "github.slow":
            await release.wait()
        done.append(event.id)

    async with working(act, batch_size=2, concurrency=2):
        await stream.append(an_event(event_type="github.slow"))
        for _ in range(5):
            await stream.append(an_event())
        await until(lambda: len(done) == 5)
        release.set()


async def test_new_events_do_not_wait_for_what_an_earlier_life_left(
    stream: EventStream, working: Starter, log: LogSettings, home: Path
) -> None:
    done: list[str] = []
    release = asyncio.Event()

    @processor("*")
    async def act(event: StreamEvent, delivery: Delivery) -> None:
        if event.event_type == "github.slow":
            await release.wait()
        done.append(event.id)

    await take_and_die(stream, log, home, events=[an_event(event_type="github.slow") for _ in range(5)], consumer="c1")
    event = an_event()
    async with working(act):
        await stream.append(event)
        await until(lambda: done == [event.id])
        release.set()
        await until(lambda: len(done) == 6)


async def test_what_is_taken_over_runs_one_at_a_time(stream: EventStream, working: Starter, log: LogSettings, home: Path) -> None:
    running, most, done = 0, 0, 0

    @processor("*")
    async def act(event: StreamEvent, delivery: Delivery) -> None:
        nonlocal running, most, done
        running += 1
        most = max(most, running)
        await asyncio.sleep(0.01)
        running -= 1
        done += 1

    await take_and_die(stream, log, home, events=[an_event() for _ in range(10)], consumer="dead")
    async with working(act, lease_ms=100):
        await until(lambda: done == 10)

    assert most == 1


async def test_an_outage_neither_runs_an_event_twice_nor_charges_it(
    own_server: EmbeddedServer, own_log: LogSettings, working: Starter, home: Path
) -> None:
    """The server hangs for several leases while an event runs and another is handed out: after it, both ran once."""
    attempts: list[tuple[str, int]] = []
    release = asyncio.Event()

    @processor("*")
    async def act(event: StreamEvent, delivery: Delivery) -> None:
        attempts.append((event.id, delivery.attempt))
        await release.wait()

    stream, event = EventStream.open(own_log, home=home), an_event()
    async with working(act, on_log=own_log, lease_ms=300):
        await stream.append(event)
        await until(lambda: len(attempts) == 1)
        for _ in range(3):
            os.kill(own_server.pid, signal.SIGSTOP)
            await asyncio.sleep(1)  # longer than the timeout and than several leases
            os.kill(own_server.pid, signal.SIGCONT)
            await asyncio.sleep(0.5)
        release.set()
        await until(lambda: unsettled(own_log, home) == 0)
    await stream.close()

    assert attempts == [(event.id, 1)]
    assert letters(own_log, home) == []


async def test_a_delivery_whose_reply_was_lost_is_found_and_not_charged(stream: EventStream, log: LogSettings, home: Path) -> None:
    await take_and_die(stream, log, home, events=[an_event()], consumer="c1")
    pipeline, keys = open_pipeline(log, home=home), Keys(log.prefix, log.shards)
    reader = GroupReader(pipeline, keys=keys, group="g", consumer="c1")
    await groups.declare(pipeline, keys=keys, group="g")

    (place,) = await leases.held_places(pipeline, reader=reader)
    unheard = [await leases.take_unheard(pipeline, keys=keys, reader=reader, place=place) for _ in range(3)]
    again = await leases.take_again(pipeline, keys=keys, reader=reader, place=place)

    await pipeline.close()
    assert [lease.delivery_count for lease in unheard if lease] == [1, 1, 1]
    assert again is not None
    assert again.delivery_count == 2


@pytest.mark.fault("B7")
@pytest.mark.parametrize("priority", [Priority.URGENT, Priority.DEFAULT])
async def test_an_event_that_was_handed_out_in_a_reply_that_never_came_runs_once(
    own_log: LogSettings, working: Starter, home: Path, priority: Priority
) -> None:
    """Handed to the worker's name behind its back; then its reads are cut off, so that it has reason to look."""
    ran: list[tuple[str, int]] = []

    @processor("*")
    async def act(event: StreamEvent, delivery: Delivery) -> None:
        ran.append((event.id, delivery.attempt))

    client, keys = open_raw(own_log, home=home), Keys(own_log.prefix, own_log.shards)
    unheard, following, name = an_event(priority=priority), an_event(priority=priority), keys.events(0, priority.value)
    async with working(act, on_log=own_log, lease_ms=300_000) as worker:
        await until(lambda: worker.makes_progress)
        pipeline = client.pipeline(transaction=True)
        pipeline.execute_command("XADD", name, "*", *encode(unheard))
        pipeline.execute_command("XREADGROUP", "GROUP", "g", "c1", "STREAMS", name, ">")
        pipeline.execute()
        await asyncio.sleep(0.2)  # it may look for it, without reason
        before = list(ran)
        for reading in [one for one in client.client_list() if one["cmd"].startswith("xreadgroup")]:
            client.client_kill_filter(_id=reading["id"])
        client.execute_command("XADD", name, "*", *encode(following))
        await until(lambda: unsettled(own_log, home) == 0 and len(ran) == 2)
    client.close()

    assert before == []
    assert sorted(ran) == sorted([(unheard.id, 1), (following.id, 1)])


async def test_urgent_events_are_read_where_nothing_else_can_be(stream: EventStream, working: Starter) -> None:
    """Every place of the hand but the reserve is taken by events that do not end."""
    ran: list[str] = []
    release = asyncio.Event()

    @processor("*")
    async def act(event: StreamEvent, delivery: Delivery) -> None:
        ran.append(event.priority.value)
        if event.priority is Priority.LOW:
            await release.wait()

    await asyncio.gather(*[stream.append(an_event(priority=Priority.LOW)) for _ in range(200)])
    async with working(act, batch_size=8, concurrency=60):
        await until(lambda: len(ran) >= 36)
        for _ in range(5):
            await stream.append(an_event(priority=Priority.URGENT))
        await until(lambda: ran.count("urgent") == 5)
        release.set()


async def test_stopping_begins_nothing_new(stream: EventStream, working: Starter, log: LogSettings, home: Path) -> None:
    begun: list[str] = []

    @processor("*")
    async def slow(event: StreamEvent, delivery: Delivery) -> None:
        begun.append(event.id)
        await asyncio.sleep(0.05)

    await take_and_die(stream, log, home, events=[an_event() for _ in range(100)], consumer="dead")
    async with working(slow, lease_ms=100):
        await until(lambda: len(begun) >= 2)
        at_stop = len(begun)

    assert len(begun) <= at_stop + 2


async def test_a_worker_stops_while_the_log_hangs(own_server: EmbeddedServer, own_log: LogSettings, working: Starter, home: Path) -> None:
    @processor("*")
    async def act(event: StreamEvent, delivery: Delivery) -> None:
        hung.set()
        await asyncio.sleep(0.1)

    hung = asyncio.Event()
    stream = EventStream.open(own_log, home=home)
    await take_and_die(stream, own_log, home, events=[an_event()], consumer="c1")
    await stream.close()
    async with working(act, on_log=own_log, stopping_s=60):
        await hung.wait()
        os.kill(own_server.pid, signal.SIGSTOP)


async def test_a_worker_of_a_narrow_gate_leaves_to_others_what_it_cannot_run(stream: EventStream, working: Starter) -> None:
    released = asyncio.Event()

    @processor("*", concurrency=1)
    async def slow(event: StreamEvent, delivery: Delivery) -> None:
        await released.wait()

    await asyncio.gather(*[stream.append(an_event()) for _ in range(200)])
    async with working(slow, batch_size=64, concurrency=4) as worker:
        await until(lambda: len(worker.hand.leases) >= 4)
        await asyncio.sleep(0.3)  # it may read as much as it will
        held = len(worker.hand.leases)
        released.set()

    # A batch for each of its four places, and one ahead; not the six batches of sixty-four that there is room for.
    assert held <= 16


async def test_a_worker_holds_no_more_bodies_than_it_has_memory_for(
    stream: EventStream, working: Starter, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(intake, "HELD_BYTES", 1_000_000)

    released = asyncio.Event()

    @processor("*", key=True)
    async def slow(event: StreamEvent, delivery: Delivery) -> None:
        await released.wait()

    await asyncio.gather(*[stream.append(an_event(key="one", delivery_id=str(n), payload=bytes(100_000))) for n in range(60)])
    async with working(slow, batch_size=8, concurrency=4) as worker:
        await until(lambda: worker.hand.body_bytes >= 1_000_000)
        await asyncio.sleep(0.3)  # it may read as much as it will
        held = worker.hand.body_bytes
        released.set()

    assert held <= 1_000_000 + 8 * 100_000
