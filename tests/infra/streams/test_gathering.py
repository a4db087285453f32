"""Events that are appended in one turn of the event loop share calls, over one connection or several; nobody notices but the server."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from infra.running.embedded import EmbeddedServer
from infra.settings import LogSettings
from infra.streams.gathering import MOST_BYTES, MOST_EVENTS
from infra.streams.keys import Keys
from infra.streams.lanes import LANES
from infra.streams.stream import EventStream
from schemas.errors import StreamUnavailable
from schemas.event import Part, Priority, StreamEvent
from tests.events import an_event
from tests.faults.breaking import break_script
from tests.infra.streams.raw import open_raw

MANY = 5 * MOST_EVENTS


def calls(client: Any) -> int:
    """How many scripts the server has run by their digests."""
    return int(client.info("commandstats").get("cmdstat_evalsha", {"calls": 0})["calls"])


def connections(client: Any) -> int:
    return int(client.info("clients")["connected_clients"])


def stored(client: Any, *, prefix: str) -> list[bytes]:
    return [fields[b"id"] for _, fields in client.xrange(Keys(prefix, 1).events(0, "default"))]


@pytest.fixture
async def warm(own_stream: EventStream) -> EventStream:
    """A stream whose server knows the scripts."""
    await own_stream.append(an_event())
    return own_stream


async def test_events_of_one_turn_share_calls_and_each_has_its_own_receipt(warm: EventStream, own_client: Any) -> None:
    events, before = [an_event() for _ in range(MOST_EVENTS)], calls(own_client)

    receipts = await asyncio.gather(*map(warm.append, events))

    assert calls(own_client) == before + 1
    assert [receipt.event_id for receipt in receipts] == [event.id for event in events]
    assert [receipt.sequence for receipt in receipts] == list(range(2, MOST_EVENTS + 2))


async def test_an_event_that_is_alone_goes_alone_and_over_one_connection(warm: EventStream, own_client: Any) -> None:
    before, connected = calls(own_client), connections(own_client)

    for _ in range(5):
        await warm.append(an_event())

    assert (calls(own_client), connections(own_client)) == (before + 5, connected)


async def test_many_events_take_several_connections_and_each_is_there_once(
    warm: EventStream, own_client: Any, own_log: LogSettings
) -> None:
    events, connected = [an_event() for _ in range(MANY)], connections(own_client)

    receipts = await asyncio.gather(*map(warm.append, events))

    assert connections(own_client) == connected + LANES - 1
    assert sorted(receipt.sequence for receipt in receipts) == list(range(2, MANY + 2))
    assert set(stored(own_client, prefix=own_log.prefix)) >= {event.id.encode() for event in events}


async def test_events_that_have_waited_somewhere_keep_their_order(warm: EventStream, own_client: Any, own_log: LogSettings) -> None:
    events = [an_event() for _ in range(MANY)]

    receipts = await asyncio.gather(*[warm.append(event, recheck=True) for event in events])

    assert [receipt.sequence for receipt in receipts] == list(range(2, MANY + 2))
    assert stored(own_client, prefix=own_log.prefix)[1:] == [event.id.encode() for event in events]


async def test_large_events_are_not_gathered_without_end(warm: EventStream, own_client: Any) -> None:
    before = calls(own_client)

    await asyncio.gather(*[warm.append(an_event(payload=b"x" * MOST_BYTES)) for _ in range(3)])

    # Two lanes more were opened, which learnt the incarnation first.
    assert calls(own_client) == before + 3 + 2


async def test_duplicates_and_conflicts_within_one_call_are_what_they_would_be_alone(warm: EventStream, own_client: Any) -> None:
    one, other = an_event(delivery_id="d1", payload=b"1"), an_event(delivery_id="d1", payload=b"2")
    repeated = [an_event(delivery_id="d1", payload=payload) for payload in (b"1", b"2")]
    before = calls(own_client)

    receipts = await asyncio.gather(*map(warm.append, [one, other, *repeated]))

    assert calls(own_client) == before + 1
    assert [(receipt.duplicate, receipt.conflict) for receipt in receipts] == [(False, False), (False, True), (True, False), (True, False)]
    assert [receipt.event_id for receipt in receipts] == [one.id, other.id, one.id, other.id]


async def test_events_of_several_sources_and_priorities_are_counted_each_for_its_own(
    warm: EventStream, own_client: Any, own_log: LogSettings
) -> None:
    events = [an_event(source=source, priority=priority) for source in ("one", "two") for priority in (Priority.URGENT, Priority.LOW)]

    receipts = await asyncio.gather(*map(warm.append, events))

    ledger = own_client.hgetall(Keys(own_log.prefix, 1).ledger(0))
    assert [(receipt.stream, receipt.sequence) for receipt in receipts] == [("urgent", 1), ("low", 1), ("urgent", 2), ("low", 2)]
    assert (ledger[b"accepted:demo:one"], ledger[b"accepted:demo:two"]) == (b"2", b"2")


async def test_everybody_in_a_call_that_fails_is_told(own_server: EmbeddedServer, warm: EventStream) -> None:
    await asyncio.to_thread(own_server.kill)

    errors = await asyncio.gather(*[warm.append(an_event()) for _ in range(3)], return_exceptions=True)

    assert {type(error) for error in errors} == {StreamUnavailable}


async def test_a_reply_that_makes_no_sense_is_an_error_for_everybody_and_no_silence(
    warm: EventStream, monkeypatch: pytest.MonkeyPatch
) -> None:
    break_script(monkeypatch, "append", ("return replies", "return {{'what?'}, {'what?'}, {'what?'}}"))

    async with asyncio.timeout(20):
        errors = await asyncio.gather(*[warm.append(an_event()) for _ in range(3)], return_exceptions=True)

    assert {type(error) for error in errors} == {ValueError}


async def test_parts_do_not_overtake_what_was_appended_before_them(warm: EventStream, own_client: Any, own_log: LogSettings) -> None:
    part = Part(number=1, of=1, body_sha256="a" * 64, before="[", after="]")
    before, parts, after = an_event(), [an_event(part=part)], an_event()

    async def append(event: StreamEvent) -> None:
        await warm.append(event, recheck=True)

    await asyncio.gather(append(before), warm.append_parts(parts, recheck=True), append(after))

    assert stored(own_client, prefix=own_log.prefix)[1:] == [event.id.encode() for event in (before, *parts, after)]


async def test_who_gives_up_takes_nobody_with_him(warm: EventStream, own_client: Any, own_log: LogSettings) -> None:
    events = [an_event() for _ in range(3)]
    first, second, third = [asyncio.ensure_future(warm.append(event)) for event in events]

    second.cancel()

    assert [(await first).event_id, (await third).event_id] == [events[0].id, events[2].id]
    assert events[1].id.encode() in stored(own_client, prefix=own_log.prefix)


async def test_a_call_of_which_one_event_cannot_be_added_adds_none(own_log: LogSettings, home: Path, warm: EventStream) -> None:
    client, keys = open_raw(own_log, home=home), Keys(own_log.prefix, 1)
    client.set(keys.events(0, "low"), "no stream")

    outcomes = await asyncio.gather(
        *[warm.append(an_event(priority=priority)) for priority in (Priority.DEFAULT, Priority.LOW)], return_exceptions=True
    )
    client.delete(keys.events(0, "low"))
    again = await warm.append(an_event())

    assert {type(outcome) for outcome in outcomes} == {StreamUnavailable}
    assert (client.xlen(keys.events(0, "default")), again.sequence) == (2, 2)
    client.close()
