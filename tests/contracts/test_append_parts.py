"""The parts of one body are on the log together or not at all, each once, under the next numbers of one stream."""

from __future__ import annotations

import asyncio
import hashlib
from pathlib import Path
from typing import Any

import pytest

from infra.running.embedded import EmbeddedServer
from infra.settings import LogSettings
from infra.streams.entries import decode
from infra.streams.keys import Keys
from infra.streams.ranges import ArchiveLog
from infra.streams.stream import MOST_PARTS, EventStream
from schemas.errors import StreamUnavailable
from schemas.event import Part, StreamEvent
from tests.contracts.test_append import entries_of
from tests.events import an_event
from tests.infra.streams.raw import open_raw

Named = tuple[str, bytes]


def parts_of(*named: Named, **changes: Any) -> list[StreamEvent]:
    """Events as a receiver makes them of one body: delivery ids and slices."""
    whole = b"[" + b",".join(payload for _, payload in named) + b"]"
    digest, count = hashlib.sha256(whole).hexdigest(), len(named)
    return [
        an_event(
            delivery_id=delivery_id,
            payload=payload,
            part=Part(
                number=number, of=count, body_sha256=digest, before="[" if number == 1 else ",", after="]" if number == count else ""
            ),
            **changes,
        )
        for number, (delivery_id, payload) in enumerate(named, start=1)
    ]


def three(tag: str = "d") -> list[StreamEvent]:
    return parts_of((f"{tag}1", b"one"), (f"{tag}2", b"two"), (f"{tag}3", b"three"))


async def test_parts_are_on_one_stream_in_their_order_under_the_next_numbers(stream: EventStream, client: Any, keys: Keys) -> None:
    events = three()

    receipts = await stream.append_parts(events)

    found = client.xrange(keys.events(keys.shard_of(events[2]), "default"))
    assert [decode(fields) for _, fields in found] == events
    assert [(int(fields[b"sequence"]), entry_id.decode()) for entry_id, fields in found] == [(r.sequence, r.entry_id) for r in receipts]
    assert [(r.event_id, r.sequence, r.duplicate, r.conflict) for r in receipts] == [
        (event.id, number, False, False) for number, event in enumerate(events, start=1)
    ]


async def test_parts_that_come_again_are_duplicates_of_the_first_whatever_company_they_are_in(
    stream: EventStream, client: Any, keys: Keys
) -> None:
    first = three()
    await stream.append_parts(first)

    again = await stream.append_parts(parts_of(("d3", b"three"), ("new", b"four"), ("d1", b"one")))

    assert [(receipt.duplicate, receipt.sequence) for receipt in again] == [(True, 0), (False, 4), (True, 0)]
    assert (again[0].event_id, again[2].event_id) == (first[2].id, first[0].id)
    assert len(entries_of(client, keys)) == 4


@pytest.mark.fault("A7")
async def test_one_body_many_times_at_once_is_there_once(stream: EventStream, client: Any, keys: Keys) -> None:
    receipts = await asyncio.gather(*[stream.append_parts(three()) for _ in range(10)])

    assert len({tuple(receipt.event_id for receipt in of_one) for of_one in receipts}) == 1
    assert len(entries_of(client, keys)) == 3


@pytest.mark.fault("A8")
async def test_a_part_with_another_body_than_before_is_stored_once_and_flagged(stream: EventStream, client: Any, keys: Keys) -> None:
    await stream.append_parts(three())

    second = await stream.append_parts(parts_of(("d1", b"other"), ("d2", b"two")))
    third = await stream.append_parts(parts_of(("d1", b"other"), ("d2", b"two")))

    assert [(receipt.conflict, receipt.duplicate) for receipt in second] == [(True, False), (False, True)]
    assert [(receipt.event_id, receipt.duplicate) for receipt in third] == [(receipt.event_id, True) for receipt in second]
    assert sorted(fields[b"conflict"] for fields in entries_of(client, keys)) == [b"0", b"0", b"0", b"1"]


async def test_parts_of_one_body_are_duplicates_and_conflicts_of_each_other_too(stream: EventStream, log: LogSettings, home: Path) -> None:
    named = [("d1", b"one"), ("d1", b"one"), ("d1", b"two"), ("d1", b"two"), ("d1", b"one")]

    receipts = await stream.append_parts(parts_of(*named))
    again = await stream.append_parts(parts_of(*named))

    archive_log = ArchiveLog.open(log, home=home)
    counts = archive_log.counts()
    archive_log.close()
    assert [(receipt.duplicate, receipt.conflict) for receipt in receipts] == [
        (False, False), (True, False), (False, True), (True, False), (True, False),
    ]  # fmt: skip
    assert [receipt.event_id for receipt in again] == [receipt.event_id for receipt in receipts]
    assert all(receipt.duplicate for receipt in again)
    assert (counts.accepted, counts.duplicates, counts.conflicts) == (
        {("demo", "github"): 2}, {("demo", "github"): 8}, {("demo", "github"): 1},
    )  # fmt: skip


async def test_a_part_whose_entry_was_lost_is_accepted_again(stream: EventStream, client: Any, keys: Keys) -> None:
    events = three()
    receipts = await stream.append_parts(events)
    client.xdel(keys.events(keys.shard_of(events[0]), "default"), receipts[1].entry_id)

    again = await stream.append_parts(three())

    assert [receipt.duplicate for receipt in again] == [True, False, True]


async def test_as_many_parts_as_may_be_are_taken_in_one_step(stream: EventStream, client: Any, keys: Keys) -> None:
    events = parts_of(*((f"d{number}", b"%d" % number) for number in range(MOST_PARTS)))

    receipts = await stream.append_parts(events)
    again = await stream.append_parts(events)

    assert [receipt.sequence for receipt in receipts] == list(range(1, MOST_PARTS + 1))
    assert [receipt.event_id for receipt in again if receipt.duplicate] == [event.id for event in events]


async def test_parts_and_other_events_share_the_numbers_of_their_stream(stream: EventStream, client: Any, keys: Keys) -> None:
    await asyncio.gather(*[stream.append_parts(three(f"{n}-")) for n in range(20)], *[stream.append(an_event()) for _ in range(40)])

    for shard in keys.all_shards():
        numbers = [int(fields[b"sequence"]) for _, fields in client.xrange(keys.events(shard, "default"))]
        assert numbers == list(range(1, len(numbers) + 1))
    assert len(entries_of(client, keys)) == 100


@pytest.mark.fault("A4")
async def test_parts_of_which_a_later_one_cannot_be_added_leave_nothing_behind(stream: EventStream, client: Any, keys: Keys) -> None:
    await stream.append_parts(three("before-"))
    shard = keys.shard_of(three()[0])
    name, ledger = keys.events(shard, "default"), client.hgetall(keys.ledger(shard))
    buckets = set(client.scan_iter(match=f"{keys.prefix}*:seen:*"))
    largest = 2**64 - 1
    client.xadd(name, {"nearly": "the end"}, id=f"{largest}-{largest - 1}")
    before = client.xlen(name)

    with pytest.raises(StreamUnavailable, match="The stream has exhausted"):
        await stream.append_parts(three())

    assert client.xlen(name) == before
    assert client.hgetall(keys.ledger(shard)) == ledger
    assert set(client.scan_iter(match=f"{keys.prefix}*:seen:*")) == buckets


@pytest.mark.fault("A4", "B8")
async def test_a_full_memory_refuses_all_parts_and_leaves_nothing_behind(
    own_server: EmbeddedServer, own_log: LogSettings, home: Path
) -> None:
    stream, client, keys = EventStream.open(own_log, home=home), open_raw(own_log, home=home), Keys(own_log.prefix, 1)
    await stream.append_parts(three("before-"))
    ledger = client.hgetall(keys.ledger(0))
    client.config_set("maxmemory", 1)

    with pytest.raises(StreamUnavailable, match="OOM"):
        await stream.append_parts(three())

    assert client.hgetall(keys.ledger(0)) == ledger
    client.config_set("maxmemory", 0)
    assert [receipt.sequence for receipt in await stream.append_parts(three())] == [4, 5, 6]
    client.close()
    await stream.close()


@pytest.mark.fault("A4")
async def test_a_server_that_wrote_down_half_of_a_body_has_nothing_of_it_when_it_is_back(
    own_server: EmbeddedServer, own_log: LogSettings, home: Path
) -> None:
    """As after a power cut: the last write of the server's own log is cut off in the middle."""
    stream, keys = EventStream.open(own_log, home=home), Keys(own_log.prefix, 1)
    await stream.append_parts(three("before-"))
    journal = max(own_server.directory.rglob("*.incr.aof"), key=lambda file: file.stat().st_size)
    whole_before = journal.stat().st_size
    await stream.append_parts(three())
    await stream.close()
    own_server.kill()
    written = journal.stat().st_size - whole_before
    with journal.open("r+b") as file:
        assert b"three" in file.read()[whole_before:]
        file.truncate(whole_before + written // 2)

    own_server.start()

    client = open_raw(own_log, home=home)
    names = [fields[b"delivery_id"] for fields in entries_of(client, keys)]
    counts = client.hget(keys.ledger(0), "accepted:demo:github")
    client.close()
    assert (names, counts) == ([b"before-1", b"before-2", b"before-3"], b"3")
    again = await stream.append_parts(three())
    await stream.close()
    assert not any(receipt.duplicate for receipt in again)
