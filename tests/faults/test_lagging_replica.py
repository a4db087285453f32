"""A replica takes over that lacks what its primary did last: deliveries, acks, groups, entries, even time.

Each control runs the same on a log without one protection.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from analytics.plan import plan
from infra.streams.connection import open_pipeline
from infra.streams.keys import Keys
from infra.streams.pipelining import Pipeline
from infra.streams.positions import Position, StreamName, id_order
from infra.streams.ranges import ArchiveLog
from infra.streams.settle import Ack
from infra.streams.stream import EventStream
from processors import Delivery, StreamEvent, processor
from schemas.errors import StreamUnavailable
from tests.contracts.clusters import wait_until
from tests.contracts.replicas import ReplicatedServer
from tests.events import an_event
from tests.faults.breaking import break_script
from tests.faults.clocks import ServerOfAnotherTime, clock_shim
from tests.faults.pair import PASSWORD, Pair, running_pair
from tests.infra.streams.deliveries import GIVE_UP, read_all, reader_of, settle_as
from tests.ports import free_port
from tests.processors.conftest import Starter
from tests.processors.conftest import working as working
from tests.processors.waiting import until
from tests.sending import AGAIN_S, DEADLINE_S, until_appended

KEYS = Keys("hooklake:", 1)
DEFAULT = StreamName(0, "default")
BEHIND_S = 60


@dataclass(frozen=True, slots=True)
class Clients:
    """A pair and whoever uses it; without waiting for the replica, so that it can lag."""

    pair: Pair
    stream: EventStream
    pipeline: Pipeline
    archive_log: ArchiveLog

    async def wait_for_replica(self) -> None:
        await asyncio.to_thread(wait_until, lambda: self.pair.replica.has_all_of(self.pair.primary))


@pytest.fixture
async def clients(tmp_path: Path, home: Path, request: pytest.FixtureRequest) -> AsyncIterator[Clients]:
    replica = request.getfixturevalue("late_replica") if "late_replica" in request.fixturenames else None
    async with running_pair(tmp_path, replica=replica) as pair:
        log = pair.log.model_copy(update={"durability": "fsync", "timeout_ms": 5000})
        found = Clients(
            pair, EventStream.open(log, home=home), open_pipeline(log, home=home, wait_ms=1000), ArchiveLog.open(log, home=home)
        )
        yield found
        await found.stream.close()
        await found.pipeline.close()
        found.archive_log.close()


@pytest.mark.fault("C5")
async def test_deliveries_and_acks_that_the_replica_lacks_are_made_again_and_nothing_is_recorded_for_them(clients: Clients) -> None:
    reader = await reader_of(clients.pipeline, KEYS)
    events = [an_event() for _ in range(3)]
    for event in events:
        await clients.stream.append(event)
    await clients.wait_for_replica()
    clients.pair.cut()
    acked, given_up, _ = await read_all(reader)
    assert await settle_as(reader, clients.pipeline, KEYS, (acked, Ack())) == []
    await clients.pair.fail_over()
    await until_reached(clients)

    lost = await settle_as(reader, clients.pipeline, KEYS, (given_up, GIVE_UP))
    again = await read_all(reader)

    assert lost == [given_up]
    assert [lease.fields[b"id"].decode() for lease in again] == [event.id for event in events]
    assert await settle_as(reader, clients.pipeline, KEYS, *((lease, Ack()) for lease in again)) == []
    assert await clients.pipeline.call("XLEN", KEYS.dead(0)) == 0


@pytest.mark.control("C5")
async def test_without_a_look_at_its_owner_a_delivery_of_the_old_primary_is_settled(
    monkeypatch: pytest.MonkeyPatch, clients: Clients
) -> None:
    break_script(monkeypatch, "settle", ("return count_of(id) == tonumber(count)", "return true"))

    with pytest.raises(AssertionError, match="assert \\[\\] == "):
        await test_deliveries_and_acks_that_the_replica_lacks_are_made_again_and_nothing_is_recorded_for_them(clients)


@pytest.mark.fault("C6")
async def test_a_group_that_the_replica_lacks_begins_with_what_there_is(clients: Clients, working: Starter) -> None:
    done: list[str] = []

    @processor("*")
    async def note(event: StreamEvent, delivery: Delivery) -> None:
        done.append(event.id)

    events = [an_event() for _ in range(5)]
    for event in events:
        await clients.stream.append(event)
    await clients.wait_for_replica()
    clients.pair.cut()
    log = clients.pair.log.model_copy(update={"timeout_ms": 5000})
    async with working(note, on_log=log):
        await until(lambda: has_group(clients.pair.primary))
        await asyncio.to_thread(clients.pair.primary.kill)
        done.clear()
        await clients.pair.fail_over()
        await until(lambda: has_group(clients.pair.replica))
        events.append(an_event())
        await until_appended(clients.stream, events[-1])
        await until(lambda: events[-1].id in done)

        assert set(done) == {event.id for event in events}


@pytest.mark.control("C6")
async def test_a_group_that_begins_at_the_end_skips_what_there_is(
    monkeypatch: pytest.MonkeyPatch, clients: Clients, working: Starter
) -> None:
    at_the_end = ("registered(KEYS[i]) or '0'", "'$'")
    break_script(monkeypatch, "declare", at_the_end, ("entries_read(create[3], create[5], KEYS[2])", "false"))

    with pytest.raises(AssertionError, match="Extra items in the right set"):
        await test_a_group_that_the_replica_lacks_begins_with_what_there_is(clients, working)


def has_group(server: ReplicatedServer) -> bool:
    return bool(server.ask("XINFO GROUPS", KEYS.events(0, "default")))


@pytest.fixture
def late_replica(tmp_path: Path) -> ServerOfAnotherTime:
    shim = clock_shim(tmp_path, step_s=-BEHIND_S)
    return ServerOfAnotherTime(tmp_path / "replica", free_port(), PASSWORD, shim=shim)


@pytest.mark.fault("C9")
async def test_events_of_a_primary_whose_clock_is_behind_are_archived_though_their_ids_are_old(
    late_replica: ServerOfAnotherTime, clients: Clients
) -> None:
    first, again = an_event(), an_event()
    before = await clients.stream.append(first)
    await clients.wait_for_replica()
    clients.pair.cut()
    for event in (again, *(an_event() for _ in range(4))):
        newest = await clients.stream.append(event)
    archived = {end.stream: end.last for end in await asyncio.to_thread(clients.archive_log.ends)}
    assert archived[DEFAULT].entry_id == newest.entry_id
    await clients.pair.fail_over()

    after = await until_appended(clients.stream, an_event())
    repeated, known = await clients.stream.append(again), await clients.stream.append(first)

    assert abs(int(late_replica.ask("TIME")[0]) + BEHIND_S - time.time()) < BEHIND_S / 2
    assert id_order(after.entry_id) < id_order(newest.entry_id)
    assert await planned_ids(clients, archived=archived) == [before.event_id, after.event_id, again.id]
    assert (repeated.duplicate, known.duplicate) == (False, True)
    assert (after.incarnation != before.incarnation, after.sequence) == (True, 1)


@pytest.mark.control("C9")
async def test_without_a_new_incarnation_events_with_old_ids_are_taken_for_archived(
    monkeypatch: pytest.MonkeyPatch, late_replica: ServerOfAnotherTime, clients: Clients
) -> None:
    break_script(monkeypatch, "begin", ("if known[1] == replication_id and known[2] then", "if known[2] then"))

    with pytest.raises(AssertionError, match=r"assert \[\] == "):
        await test_events_of_a_primary_whose_clock_is_behind_are_archived_though_their_ids_are_old(late_replica, clients)


async def planned_ids(clients: Clients, *, archived: dict[StreamName, Position]) -> list[str]:
    """What the archive's next batch reads, by event id."""

    def read() -> list[str]:
        ranges = plan(clients.archive_log.ends(), archived=archived)
        read_ranges = [clients.archive_log.read(one.stream, after=one.after.entry_id, to=one.to.entry_id) for one in ranges]
        return [entry.fields[b"id"].decode() for batches in read_ranges for batch in batches for entry in batch]

    return await asyncio.to_thread(read)


async def until_reached(clients: Clients) -> None:
    """A call may be what learns that its connection was lost."""
    async with asyncio.timeout(DEADLINE_S):
        while True:
            with contextlib.suppress(StreamUnavailable):
                await clients.pipeline.call("PING")
                return
            await asyncio.sleep(AGAIN_S)
