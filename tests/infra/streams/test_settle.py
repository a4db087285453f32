from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from infra.running.embedded import EmbeddedServer
from infra.settings import LogSettings
from infra.streams import groups, leases
from infra.streams.connection import open_pipeline
from infra.streams.dead_letters import DeadLetters
from infra.streams.delayed import promote_due
from infra.streams.keys import Keys
from infra.streams.pipelining import Pipeline
from infra.streams.settle import Ack, GiveUp, RetryLater, Settlement, settle
from infra.streams.stream import EventStream, GroupReader, Lease
from tests.events import an_event
from tests.infra.streams.raw import open_raw

GIVE_UP = GiveUp(processor="p", reason="because", error="ValueError: x", traceback="tb", attempts=4, dead_at_ms=1_700_000_000_000)


async def reader_of(pipeline: Pipeline, keys: Keys, *, consumer: str = "c1", group: str = "g") -> GroupReader:
    await groups.declare(pipeline, keys=keys, group=group)
    return GroupReader(pipeline, keys=keys, group=group, consumer=consumer)


async def settle_as(reader: GroupReader, pipeline: Pipeline, keys: Keys, *decisions: tuple[Lease, Settlement]) -> list[Lease]:
    return await settle(pipeline, keys=keys, group=reader.group, consumer=reader.consumer, decisions=decisions)


async def read_one(reader: GroupReader) -> Lease:
    (lease,) = await reader.read(budget=100, block_ms=1000)
    return lease


async def pending(pipeline: Pipeline, lease: Lease) -> int:
    reply = await pipeline.call("XPENDING", lease.stream, "g")
    return int(reply[0])


async def test_an_acked_delivery_is_no_longer_pending(stream: EventStream, pipeline: Pipeline, keys: Keys) -> None:
    reader = await reader_of(pipeline, keys)
    await stream.append(an_event())
    lease = await read_one(reader)

    lost = await settle_as(reader, pipeline, keys, (lease, Ack()))

    assert lost == []
    assert await pending(pipeline, lease) == 0


@pytest.mark.parametrize("settlement", [Ack(), RetryLater(0, 1), RetryLater(1000, 1), GIVE_UP])
async def test_a_consumer_whose_delivery_was_taken_over_settles_nothing(
    stream: EventStream, pipeline: Pipeline, keys: Keys, client: Any, settlement: Settlement
) -> None:
    slow, quick = await reader_of(pipeline, keys), await reader_of(pipeline, keys, consumer="c2")
    await stream.append(an_event())
    lease = await read_one(slow)
    taken = await leases.claim_idle(pipeline, keys=keys, reader=quick, lease_ms=0)

    lost = await settle_as(slow, pipeline, keys, (lease, settlement))

    assert lost == [lease]
    assert taken is not None
    assert await pending(pipeline, lease) == 1
    assert client.exists(keys.dead(lease.shard), keys.delayed(lease.shard)) == 0
    assert client.xlen(keys.retry(lease.shard, "g")) == 0


async def test_a_name_alone_fences_nobody_but_name_and_count_do(stream: EventStream, pipeline: Pipeline, keys: Keys) -> None:
    reader = await reader_of(pipeline, keys)
    await stream.append(an_event())
    before_restart = await read_one(reader)
    after_restart = await leases.claim_own(pipeline, keys=keys, reader=reader)

    assert after_restart is not None
    assert after_restart.delivery_count == 2
    assert await settle_as(reader, pipeline, keys, (before_restart, Ack())) == [before_restart]
    assert await settle_as(reader, pipeline, keys, (after_restart, Ack())) == []


async def test_a_retry_at_once_comes_back_to_its_own_group_only(stream: EventStream, pipeline: Pipeline, keys: Keys, client: Any) -> None:
    reader, other = await reader_of(pipeline, keys), await reader_of(pipeline, keys, group="other")
    event = an_event()
    await stream.append(event)
    lease = await read_one(reader)
    await read_one(other)

    await settle_as(reader, pipeline, keys, (lease, RetryLater(0, 1)))

    again = await read_one(reader)
    assert (again.fields[b"id"], again.fields[b"retry_count"]) == (event.id.encode(), b"1")
    assert again.fields[b"payload"] == event.payload
    assert await other.read(budget=100, block_ms=50) == []
    await settle_as(reader, pipeline, keys, (again, Ack()))
    assert client.xlen(again.stream) == 0


async def test_a_delayed_retry_waits_for_the_servers_clock(stream: EventStream, pipeline: Pipeline, keys: Keys, client: Any) -> None:
    reader = await reader_of(pipeline, keys)
    await stream.append(an_event())
    lease = await read_one(reader)
    await settle_as(reader, pipeline, keys, (lease, RetryLater(60_000, 2)))

    assert await promote_due(pipeline, keys=keys) == 0
    for member in client.zrange(keys.delayed(lease.shard), 0, -1):
        client.zincrby(keys.delayed(lease.shard), -60_000, member)
    assert await promote_due(pipeline, keys=keys) == 1

    assert (await read_one(reader)).fields[b"retry_count"] == b"2"
    assert client.exists(keys.delayed(lease.shard), keys.delayed_bodies(lease.shard)) == 0


async def test_a_dead_letter_says_why_and_can_be_requeued_once(
    stream: EventStream, pipeline: Pipeline, keys: Keys, log: LogSettings, home: Path
) -> None:
    reader = await reader_of(pipeline, keys)
    event = an_event()
    await stream.append(event)
    await settle_as(reader, pipeline, keys, (await read_one(reader), GIVE_UP))
    dead_letters = DeadLetters.open(log, home=home)

    (letter,) = dead_letters.find(event.id)
    results = [dead_letters.requeue(letter), dead_letters.requeue(letter)]

    assert (letter.reason, letter.error, letter.traceback, letter.attempts) == ("because", "ValueError: x", "tb", 4)
    assert letter.event == event
    assert results == ["requeued", "already"]
    again = await read_one(reader)
    assert b"retry_count" not in again.fields
    assert again.fields[b"payload"] == event.payload
    assert [found.state for found in dead_letters.letters()] == ["requeued"]
    assert list(dead_letters.letters(state="open")) == []
    dead_letters.close()


async def test_settling_works_when_the_servers_memory_is_full(own_server: EmbeddedServer, own_log: LogSettings, home: Path) -> None:
    stream, pipeline, client = EventStream.open(own_log, home=home), open_pipeline(own_log, home=home), open_raw(own_log, home=home)
    keys = Keys(own_log.prefix, 1)
    reader = await reader_of(pipeline, keys)
    for _ in range(4):
        await stream.append(an_event())
    taken = await reader.read(budget=100, block_ms=100)
    client.config_set("maxmemory", 1)

    decisions: list[Settlement] = [Ack(), RetryLater(0, 1), RetryLater(1000, 1), GIVE_UP]
    lost = await settle_as(reader, pipeline, keys, *zip(taken, decisions, strict=True))

    assert lost == []
    assert (client.xlen(keys.dead(0)), client.xlen(keys.retry(0, "g")), client.zcard(keys.delayed(0))) == (1, 1, 1)
    client.close()
    await stream.close()
    await pipeline.close()


async def test_a_renewed_lease_is_not_idle_and_its_count_does_not_grow(stream: EventStream, pipeline: Pipeline, keys: Keys) -> None:
    reader, other = await reader_of(pipeline, keys), await reader_of(pipeline, keys, consumer="c2")
    await stream.append(an_event())
    lease = await read_one(reader)
    lease_ms = 200
    await pipeline.call("XCLAIM", lease.stream, "g", "c1", 0, lease.entry_id, "IDLE", 10_000, "JUSTID")

    assert await leases.renew(pipeline, reader=reader, leases=[lease]) == []

    assert await leases.claim_idle(pipeline, keys=keys, reader=other, lease_ms=lease_ms * 25) is None
    assert await settle_as(reader, pipeline, keys, (lease, Ack())) == []


async def test_a_lease_that_was_taken_over_is_not_renewed(stream: EventStream, pipeline: Pipeline, keys: Keys) -> None:
    reader, other = await reader_of(pipeline, keys), await reader_of(pipeline, keys, consumer="c2")
    await stream.append(an_event())
    lease = await read_one(reader)
    await leases.claim_idle(pipeline, keys=keys, reader=other, lease_ms=0)

    assert await leases.renew(pipeline, reader=reader, leases=[lease]) == [lease]


async def test_a_delivery_whose_entry_was_trimmed_beneath_the_group_is_counted_as_lost(
    stream: EventStream, pipeline: Pipeline, keys: Keys, client: Any
) -> None:
    reader = await reader_of(pipeline, keys)
    await stream.append(an_event())
    lease = await read_one(reader)
    client.xtrim(lease.stream, maxlen=0, approximate=False)

    assert await leases.claim_idle(pipeline, keys=keys, reader=reader, lease_ms=0) is None

    assert client.hget(keys.ledger(lease.shard), "lost:g") == b"1"
    assert await pending(pipeline, lease) == 0
