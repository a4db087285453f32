"""A replica that has missed too much is sent everything anew: until it has it, nothing is accepted on its account."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from infra.streams import connection
from infra.streams.keys import Keys
from infra.streams.stream import EventStream
from schemas.event import StreamEvent
from tests.contracts.clusters import wait_until
from tests.events import an_event
from tests.faults.pair import Pair, running_pair, stored_on
from tests.ports import free_port
from tests.sending import accepted_of, until_appended

STREAM = Keys("hooklake:", 1).events(0, "default")
# What cannot be compressed, and is more than the primary keeps for a replica that is away.
BODY_BYTES, SMALL_BUFFERS = 20_000, {"repl-backlog-size": "16kb", "client-output-buffer-limit": "replica 1mb 1mb 1"}
ROOM_BYTES = 3_000_000


@pytest.fixture
async def pair(tmp_path: Path) -> AsyncIterator[Pair]:
    async with running_pair(tmp_path, options=SMALL_BUFFERS) as running:
        yield running


def large_events(count: int) -> list[StreamEvent]:
    return [an_event(payload=os.urandom(BODY_BYTES)) for _ in range(count)]


def full_resyncs(pair: Pair) -> int:
    return int(pair.primary.ask("INFO", "stats")["sync_full"])


@pytest.mark.fault("C10")
async def test_a_primary_that_dies_while_its_replica_is_sent_everything_has_accepted_nothing_since(
    pair: Pair, home: Path, times: int
) -> None:
    stream = EventStream.open(pair.log, home=home)
    accepted = {(await until_appended(stream, event)).event_id for event in large_events(10)}
    resyncs = full_resyncs(pair)

    pair.link.lead_to(free_port())
    accepted |= {receipt.event_id for receipt in await accepted_of(large_events(10 * times), stream=stream)}
    pair.link.harm(limit_data=100_000)  # a half of what it needs, again and again
    pair.link.lead_to(pair.primary.port)
    await asyncio.to_thread(wait_until, lambda: full_resyncs(pair) > resyncs)
    accepted |= {receipt.event_id for receipt in await accepted_of(large_events(10 * times), stream=stream)}
    await pair.fail_over()
    await stream.close()

    assert accepted <= stored_on(pair.replica, STREAM).keys()


@pytest.mark.control("C10")
async def test_whoever_asks_no_replica_loses_what_it_accepts_while_the_replica_is_sent_everything(
    monkeypatch: pytest.MonkeyPatch, pair: Pair, home: Path
) -> None:
    monkeypatch.setattr(connection, "confirmation_of", lambda log: None)

    with pytest.raises(AssertionError, match="<= "):
        await test_a_primary_that_dies_while_its_replica_is_sent_everything_has_accepted_nothing_since(pair, home, times=1)


@pytest.mark.fault("C10")
async def test_a_replica_is_sent_everything_by_a_primary_whose_memory_is_full(pair: Pair, home: Path, times: int) -> None:
    primary, stream = pair.primary, EventStream.open(pair.log, home=home)
    events, pid, resyncs = large_events(10), primary.pid, full_resyncs(pair)
    for event in events:
        await until_appended(stream, event)

    pair.link.lead_to(free_port())
    used = int(primary.ask("INFO", "memory")["used_memory"])
    primary.ask("CONFIG SET", "maxmemory", used + ROOM_BYTES * times)
    events += large_events(2 * ROOM_BYTES * times // BODY_BYTES)
    assert await accepted_of(events[10:], stream=stream) == []
    assert len(stored_on(primary, STREAM)) < len(events)  # its memory is full
    pair.link.lead_to(primary.port)
    await asyncio.to_thread(wait_until, lambda: full_resyncs(pair) > resyncs and pair.replica.has_all_of(primary))

    assert (primary.pid, primary.ask("PING")) == (pid, True)
    assert stored_on(pair.replica, STREAM) == stored_on(primary, STREAM)
    primary.ask("CONFIG SET", "maxmemory", 0)
    for event in events:
        await until_appended(stream, event)
    await pair.fail_over()
    await stream.close()
    assert stored_on(pair.replica, STREAM).keys() == {event.id for event in events}
