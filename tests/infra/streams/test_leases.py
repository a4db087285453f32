from __future__ import annotations

from typing import Any

from infra.streams import leases
from infra.streams.keys import Keys
from infra.streams.pipelining import Pipeline
from infra.streams.settle import Ack
from infra.streams.stream import EventStream
from tests.events import an_event
from tests.infra.streams.deliveries import pending, read_one, reader_of, settle_as


async def test_a_renewed_lease_is_not_idle_and_its_count_does_not_grow(stream: EventStream, pipeline: Pipeline, keys: Keys) -> None:
    reader, other = await reader_of(pipeline, keys), await reader_of(pipeline, keys, consumer="c2")
    await stream.append(an_event())
    lease = await read_one(reader)
    lease_ms = 200
    await pipeline.call("XCLAIM", lease.stream, "g", "c1", 0, lease.entry_id, "IDLE", 10_000, "JUSTID")

    assert await leases.renew(pipeline, keys=keys, reader=reader, leases=[lease]) == []

    assert await leases.claim_idle(pipeline, keys=keys, reader=other, lease_ms=lease_ms * 25) is None
    assert await settle_as(reader, pipeline, keys, (lease, Ack())) == []


async def test_a_lease_that_was_taken_over_is_not_renewed(stream: EventStream, pipeline: Pipeline, keys: Keys) -> None:
    reader, other = await reader_of(pipeline, keys), await reader_of(pipeline, keys, consumer="c2")
    await stream.append(an_event())
    lease = await read_one(reader)
    await leases.claim_idle(pipeline, keys=keys, reader=other, lease_ms=0)

    assert await leases.renew(pipeline, keys=keys, reader=reader, leases=[lease]) == [lease]


async def test_a_lease_that_another_consumer_holds_under_the_same_count_is_not_renewed(
    stream: EventStream, pipeline: Pipeline, keys: Keys
) -> None:
    reader = await reader_of(pipeline, keys)
    await stream.append(an_event())
    lease = await read_one(reader)
    await pipeline.call("XCLAIM", lease.stream, "g", "c2", 0, lease.entry_id, "JUSTID")

    assert await leases.renew(pipeline, keys=keys, reader=reader, leases=[lease]) == [lease]
    ((_, owner, _, _),) = await pipeline.call("XPENDING", lease.stream, "g", "-", "+", 1)
    assert owner == b"c2"


async def test_a_lease_of_an_earlier_life_of_the_same_consumer_is_not_renewed(stream: EventStream, pipeline: Pipeline, keys: Keys) -> None:
    reader = await reader_of(pipeline, keys)
    await stream.append(an_event())
    lease = await read_one(reader)
    await pipeline.call("XCLAIM", lease.stream, "g", "c1", 0, lease.entry_id)

    assert await leases.renew(pipeline, keys=keys, reader=reader, leases=[lease]) == [lease]


async def test_renewing_a_lease_whose_entry_was_trimmed_counts_it_as_lost(
    stream: EventStream, pipeline: Pipeline, keys: Keys, client: Any
) -> None:
    reader = await reader_of(pipeline, keys)
    for _ in range(2):
        await stream.append(an_event(key="one shard"))
    gone, kept = await reader.read(budget=100, block_ms=1000)
    client.xdel(gone.stream, gone.entry_id)

    lost = [await leases.renew(pipeline, keys=keys, reader=reader, leases=[gone, kept]) for _ in range(2)]

    assert lost == [[gone], [gone]]
    assert client.hget(keys.ledger(gone.shard), "lost:g") == b"1"
    assert await pending(pipeline, kept) == 1


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
