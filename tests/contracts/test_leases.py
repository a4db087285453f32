"""A lease is kept by its owner alone; who takes a delivery over is charged for it, one at a time."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from infra.running.embedded import EmbeddedServer
from infra.settings import LogSettings
from infra.streams import leases
from infra.streams.connection import open_pipeline
from infra.streams.keys import Keys
from infra.streams.pipelining import Pipeline
from infra.streams.settle import Ack
from infra.streams.stream import EventStream
from tests.events import an_event
from tests.infra.streams.deliveries import pending, read_one, reader_of, settle_as
from tests.infra.streams.raw import open_raw


@pytest.mark.fault("D1")
async def test_deliveries_of_a_dead_consumer_are_taken_over_one_at_a_time_and_counted(
    stream: EventStream, pipeline: Pipeline, keys: Keys
) -> None:
    dead, heir = await reader_of(pipeline, keys), await reader_of(pipeline, keys, consumer="c2")
    for _ in range(3):
        await stream.append(an_event(key="one shard"))
    left = await dead.read(budget=100, block_ms=1000)

    taken = await leases.claim_idle(pipeline, keys=keys, reader=heir, lease_ms=0)

    assert taken is not None
    assert (taken.entry_id, taken.delivery_count, taken.fields) == (left[0].entry_id, 2, left[0].fields)
    charged = await pipeline.call("XPENDING", taken.stream, "g", "-", "+", 10)
    assert [(owner, count) for _, owner, _, count in charged] == [(b"c2", 2), (b"c1", 1), (b"c1", 1)]


async def test_a_delivery_that_is_renewed_in_time_is_nobodys_to_take(stream: EventStream, pipeline: Pipeline, keys: Keys) -> None:
    reader, other = await reader_of(pipeline, keys), await reader_of(pipeline, keys, consumer="c2")
    await stream.append(an_event())
    await read_one(reader)

    assert await leases.claim_idle(pipeline, keys=keys, reader=other, lease_ms=60_000) is None


async def test_a_delivery_whose_reply_was_never_heard_is_taken_uncounted(stream: EventStream, pipeline: Pipeline, keys: Keys) -> None:
    reader, other = await reader_of(pipeline, keys), await reader_of(pipeline, keys, consumer="c2")
    await stream.append(an_event())
    unheard = await read_one(reader)  # as if the connection had been cut in the middle of the reply

    places = await leases.held_places(pipeline, reader=reader)
    heard = [await leases.take_unheard(pipeline, keys=keys, reader=reader, place=place) for place in places]

    assert heard == [unheard]
    assert await leases.take_unheard(pipeline, keys=keys, reader=other, place=places[0]) is None
    assert await settle_as(reader, pipeline, keys, (unheard, Ack())) == []


async def test_deliveries_are_renewed_and_taken_over_when_the_servers_memory_is_full(
    own_server: EmbeddedServer, own_log: LogSettings, home: Path
) -> None:
    stream, pipeline, client = EventStream.open(own_log, home=home), open_pipeline(own_log, home=home), open_raw(own_log, home=home)
    keys = Keys(own_log.prefix, 1)
    reader = await reader_of(pipeline, keys)
    await stream.append(an_event())
    lease = await read_one(reader)
    client.config_set("maxmemory", 1)

    lost = await leases.renew(pipeline, reader=reader, leases=[lease])
    claimed = await leases.claim_idle(pipeline, keys=keys, reader=reader, lease_ms=0)

    assert lost == []
    assert claimed is not None
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


async def test_a_lease_that_another_consumer_holds_under_the_same_count_is_not_renewed(
    stream: EventStream, pipeline: Pipeline, keys: Keys
) -> None:
    reader = await reader_of(pipeline, keys)
    await stream.append(an_event())
    lease = await read_one(reader)
    await pipeline.call("XCLAIM", lease.stream, "g", "c2", 0, lease.entry_id, "JUSTID")

    assert await leases.renew(pipeline, reader=reader, leases=[lease]) == [lease]
    ((_, owner, _, _),) = await pipeline.call("XPENDING", lease.stream, "g", "-", "+", 1)
    assert owner == b"c2"


async def test_a_lease_of_an_earlier_life_of_the_same_consumer_is_not_renewed(stream: EventStream, pipeline: Pipeline, keys: Keys) -> None:
    reader = await reader_of(pipeline, keys)
    await stream.append(an_event())
    lease = await read_one(reader)
    await pipeline.call("XCLAIM", lease.stream, "g", "c1", 0, lease.entry_id)

    assert await leases.renew(pipeline, reader=reader, leases=[lease]) == [lease]


@pytest.mark.fault("D12")
@pytest.mark.parametrize("slip", ["trim", "delete", "empty"])
async def test_renewing_a_lease_leaves_one_whose_entry_was_removed_to_whoever_runs_it(
    stream: EventStream, pipeline: Pipeline, keys: Keys, client: Any, slip: str
) -> None:
    reader = await reader_of(pipeline, keys)
    for _ in range(3):
        await stream.append(an_event(key="one shard"))
    leased = await reader.read(budget=100, block_ms=1000)
    gone = leased if slip == "empty" else leased[1:2] if slip == "delete" else leased[:1]
    if slip == "delete":
        client.xdel(gone[0].stream, gone[0].entry_id)
    else:
        client.xtrim(gone[0].stream, maxlen=len(leased) - len(gone), approximate=False)

    lost = [await leases.renew(pipeline, reader=reader, leases=leased) for _ in range(2)]

    assert lost == [[], []]
    assert await settle_as(reader, pipeline, keys, *((lease, Ack()) for lease in gone)) == []
    assert client.hget(keys.ledger(gone[0].shard), "lost:g") is None
    assert await pending(pipeline, gone[0]) == len(leased) - len(gone)


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
