"""An event is on the log once, whole, under the next number; what the log lost may come again."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from infra.running.embedded import EmbeddedServer
from infra.settings import LogSettings
from infra.streams.entries import decode
from infra.streams.keys import Keys
from infra.streams.positions import StreamName
from infra.streams.ranges import ArchiveLog
from infra.streams.stream import EventStream
from schemas.errors import ConfigError, StreamUnavailable
from schemas.event import Priority
from tests.events import an_event
from tests.infra.streams.raw import open_raw


def entries_of(client: Any, keys: Keys) -> list[dict[bytes, bytes]]:
    streams = [stream for shard in keys.all_shards() for stream in keys.event_streams(shard)]
    return [fields for stream in streams for _, fields in client.xrange(stream)]


async def test_an_appended_event_is_on_the_stream_unchanged(stream: EventStream, client: Any, keys: Keys) -> None:
    event = an_event(payload=b"\x00\xff not json \xed\xa0\x80", headers={"x": "\u00e9\n"}, key="octo/hello")

    receipt = await stream.append(event)

    assert [decode(fields) for fields in entries_of(client, keys)] == [event]
    assert (receipt.event_id, receipt.duplicate, receipt.conflict, receipt.sequence) == (event.id, False, False, 1)


async def test_a_second_delivery_with_the_same_id_is_a_duplicate_of_the_first(stream: EventStream, client: Any, keys: Keys) -> None:
    first = an_event(delivery_id="d1")
    await stream.append(first)

    receipts = await asyncio.gather(*[stream.append(an_event(delivery_id="d1")) for _ in range(20)])

    assert {(receipt.event_id, receipt.duplicate) for receipt in receipts} == {(first.id, True)}
    assert len(entries_of(client, keys)) == 1


@pytest.mark.fault("A7")
async def test_concurrent_first_deliveries_make_one_entry(stream: EventStream, client: Any, keys: Keys) -> None:
    receipts = await asyncio.gather(*[stream.append(an_event(delivery_id="d1")) for _ in range(20)])

    assert sum(not receipt.duplicate for receipt in receipts) == 1
    assert len({receipt.event_id for receipt in receipts}) == 1
    assert len(entries_of(client, keys)) == 1


async def test_the_same_delivery_id_of_another_source_or_tenant_is_another_event(stream: EventStream) -> None:
    for changes in ({}, {"source": "gitlab"}, {"tenant_id": "other"}):
        assert not (await stream.append(an_event(delivery_id="d1", **changes))).duplicate


@pytest.mark.fault("A8")
async def test_the_same_delivery_id_with_another_body_is_stored_once_and_flagged(stream: EventStream, client: Any, keys: Keys) -> None:
    await stream.append(an_event(delivery_id="d1", payload=b"one"))

    second = await stream.append(an_event(delivery_id="d1", payload=b"two"))
    third = await stream.append(an_event(delivery_id="d1", payload=b"two"))
    again = await stream.append(an_event(delivery_id="d1", payload=b"one"))

    assert (second.conflict, second.duplicate) == (True, False)
    assert (third.duplicate, third.event_id) == (True, second.event_id)
    assert again.duplicate
    assert sorted(fields[b"conflict"] for fields in entries_of(client, keys)) == [b"0", b"1"]


async def test_a_second_body_stays_a_duplicate_when_the_entry_of_the_first_is_lost(stream: EventStream, client: Any, keys: Keys) -> None:
    first = an_event(delivery_id="d1", payload=b"one")
    lost = await stream.append(first)
    second = await stream.append(an_event(delivery_id="d1", payload=b"two"))
    client.xdel(keys.events(keys.shard_of(first), "default"), lost.entry_id)

    again = await stream.append(an_event(delivery_id="d1", payload=b"two"))

    assert (again.duplicate, again.event_id) == (True, second.event_id)
    assert len(entries_of(client, keys)) == 1


async def test_numbers_are_gapless_within_a_stream(stream: EventStream, client: Any, keys: Keys) -> None:
    chosen = [Priority.URGENT, Priority.DEFAULT, Priority.LOW, Priority.OVERFLOW]

    await asyncio.gather(*[stream.append(an_event(priority=chosen[n % 4], delivery_id=f"d{n % 150}")) for n in range(200)])

    for shard in keys.all_shards():
        for name in keys.event_streams(shard):
            numbers = [int(fields[b"sequence"]) for _, fields in client.xrange(name)]
            assert numbers == list(range(1, len(numbers) + 1))
    assert len(entries_of(client, keys)) == 150


async def test_the_ledger_counts_what_was_accepted(stream: EventStream, log: LogSettings, home: Path) -> None:
    for delivery, payload in (("d1", b"one"), ("d2", b"one"), ("d1", b"one"), ("d1", b"another")):
        await stream.append(an_event(delivery_id=delivery, payload=payload))

    archive_log = ArchiveLog.open(log, home=home)
    counts = archive_log.counts()
    archive_log.close()

    assert counts.accepted == {("demo", "github"): 3}
    assert counts.duplicates == {("demo", "github"): 1}
    assert counts.conflicts == {("demo", "github"): 1}


async def test_a_restarted_server_begins_a_new_incarnation_and_remembers_deliveries(
    own_server: EmbeddedServer, own_log: LogSettings, home: Path
) -> None:
    stream = EventStream.open(own_log, home=home)
    before = await stream.append(an_event(delivery_id="d1"))
    own_server.kill()
    own_server.start()

    await stream.close()
    after = await stream.append(an_event(delivery_id="d2"))
    again = await stream.append(an_event(delivery_id="d1"))

    await stream.close()
    assert after.incarnation != before.incarnation
    assert after.sequence == 1
    assert (again.duplicate, again.event_id) == (True, before.event_id)


async def test_another_receiver_learns_of_the_new_incarnation_when_its_append_is_refused(
    own_server: EmbeddedServer, own_log: LogSettings, home: Path
) -> None:
    stream = EventStream.open(own_log, home=home)
    before = await stream.append(an_event())
    client = open_raw(own_log, home=home)
    client.hset(Keys(own_log.prefix, 1).ledger(0), "incarnation", "someothr")

    after = await stream.append(an_event())

    await stream.close()
    client.close()
    assert after.incarnation == "someothr" != before.incarnation


async def test_a_delivery_whose_entry_was_lost_is_accepted_again(stream: EventStream, client: Any, keys: Keys) -> None:
    event = an_event(delivery_id="d1")
    receipt = await stream.append(event)
    client.xdel(keys.events(keys.shard_of(event), "default"), receipt.entry_id)

    again = await stream.append(event)

    assert not again.duplicate
    assert len(entries_of(client, keys)) == 1


async def test_a_delivery_that_was_lost_above_the_archived_mark_is_accepted_again(
    stream: EventStream, log: LogSettings, home: Path, client: Any, keys: Keys
) -> None:
    archived, lost = an_event(key="one shard"), an_event(key="one shard")
    await stream.append(archived)
    archive_log = ArchiveLog.open(log, home=home)
    archive_log.move({end.stream: end.last for end in archive_log.ends() if end.last.sequence})
    archive_log.close()
    receipt = await stream.append(lost)
    client.xdel(keys.events(keys.shard_of(lost), "default"), receipt.entry_id)

    again = await stream.append(lost)

    assert not again.duplicate


async def test_another_event_under_the_same_entry_id_is_no_proof_of_the_first(stream: EventStream, client: Any, keys: Keys) -> None:
    event, other = an_event(delivery_id="d1"), an_event()
    receipt = await stream.append(event)
    name = keys.events(keys.shard_of(event), "default")
    client.delete(name)  # a flush, and a clock that was set back
    client.xadd(name, {"id": other.id}, id=receipt.entry_id)

    again = await stream.append(event)

    assert not again.duplicate


async def test_a_delivery_that_is_archived_and_trimmed_stays_a_duplicate(
    stream: EventStream, log: LogSettings, home: Path, client: Any, keys: Keys
) -> None:
    event = an_event(delivery_id="d1")
    await stream.append(event)
    archive_log = ArchiveLog.open(log, home=home)
    archive_log.move({end.stream: end.last for end in archive_log.ends() if end.last.sequence})
    assert archive_log.trim() == 1
    archive_log.close()

    again = await stream.append(event)

    assert (again.duplicate, again.event_id) == (True, event.id)
    assert entries_of(client, keys) == []


async def test_another_number_of_shards_is_refused(stream: EventStream, log: LogSettings, home: Path) -> None:
    for _ in range(20):  # every shard is begun
        await stream.append(an_event())

    other = EventStream.open(log.model_copy(update={"shards": 2}), home=home)
    with pytest.raises(ConfigError, match=r"log\.shards=2, but this log was begun with 4 shards"):
        await other.append(an_event())
    await other.close()


async def test_more_shards_than_the_log_has_are_refused_for_every_event(stream: EventStream, log: LogSettings, home: Path) -> None:
    await stream.append(an_event())

    other = EventStream.open(log.model_copy(update={"shards": 8}), home=home)
    refused = await asyncio.gather(*[other.append(an_event()) for _ in range(40)], return_exceptions=True)
    await other.close()

    assert {type(error) for error in refused} == {ConfigError}


async def test_a_stream_that_takes_no_more_entries_uses_up_no_number(stream: EventStream, client: Any, keys: Keys) -> None:
    await stream.append(an_event(key="one shard"))
    shard = keys.shard_of(an_event(key="one shard"))
    ledger = client.hgetall(keys.ledger(shard))
    largest = 2**64 - 1
    client.xadd(keys.events(shard, "default"), {"the": "end"}, id=f"{largest}-{largest}")

    with pytest.raises(StreamUnavailable, match="The stream has exhausted"):
        await stream.append(an_event(key="one shard"))

    assert client.hgetall(keys.ledger(shard)) == ledger


@pytest.mark.fault("B8")
async def test_a_full_memory_refuses_an_event_and_leaves_nothing_behind(
    own_server: EmbeddedServer, own_log: LogSettings, home: Path
) -> None:
    stream, client = EventStream.open(own_log, home=home), open_raw(own_log, home=home)
    await stream.append(an_event(delivery_id="d1"))
    ledger = client.hgetall(Keys(own_log.prefix, 1).ledger(0))
    client.config_set("maxmemory", 1)

    with pytest.raises(StreamUnavailable, match="OOM"):
        await stream.append(an_event(delivery_id="d2"))

    assert client.hgetall(Keys(own_log.prefix, 1).ledger(0)) == ledger
    client.config_set("maxmemory", 0)
    assert (await stream.append(an_event(delivery_id="d2"))).sequence == 2
    client.close()
    await stream.close()


async def test_the_archived_mark_of_a_past_incarnation_still_counts(own_server: EmbeddedServer, own_log: LogSettings, home: Path) -> None:
    stream = EventStream.open(own_log, home=home)
    first = await stream.append(an_event(delivery_id="d1"))
    archive_log = ArchiveLog.open(own_log, home=home)
    archive_log.move({StreamName(0, "default"): archive_log.ends()[1].last})
    archive_log.trim()
    own_server.kill()
    own_server.start()
    await stream.close()
    archive_log.close()

    again = await stream.append(an_event(delivery_id="d1"))

    await stream.close()
    assert (again.duplicate, again.event_id) == (True, first.event_id)
