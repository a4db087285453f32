"""Only the consumer that holds a delivery, in the life that it was handed it in, can settle it; nothing is lost on the way."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from infra.settings import LogSettings
from infra.streams import leases
from infra.streams.dead_letters import DeadLetters
from infra.streams.entries import LOG_FIELDS, decode
from infra.streams.keys import Keys
from infra.streams.pipelining import Pipeline
from infra.streams.settle import Ack, HoldBack, Park, RetryLater, Settlement
from infra.streams.stream import EventStream
from schemas.errors import StreamUnavailable
from tests.events import an_event
from tests.infra.streams.deliveries import GIVE_UP, TOO_MANY, add_foreign, pending, read_one, reader_of, settle_as

SETTLEMENTS: list[Settlement] = [Ack(), RetryLater(0, 1), RetryLater(1000, 1), GIVE_UP, Park(0)]


async def test_an_acked_delivery_is_no_longer_pending(stream: EventStream, pipeline: Pipeline, keys: Keys) -> None:
    reader = await reader_of(pipeline, keys)
    await stream.append(an_event())
    lease = await read_one(reader)

    lost = await settle_as(reader, pipeline, keys, (lease, Ack()))

    assert lost == []
    assert await pending(pipeline, lease) == 0


@pytest.mark.parametrize("settlement", SETTLEMENTS)
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
    assert client.xlen(keys.retry(lease.shard, "g")) + client.xlen(keys.parked(lease.shard, "g")) == 0


async def test_a_count_alone_fences_nobody_but_name_and_count_do(stream: EventStream, pipeline: Pipeline, keys: Keys) -> None:
    reader = await reader_of(pipeline, keys)
    await stream.append(an_event())
    lease = await read_one(reader)
    await pipeline.call("XCLAIM", lease.stream, "g", "c2", 0, lease.entry_id, "JUSTID")  # the count stays 1

    assert await settle_as(reader, pipeline, keys, (lease, Ack())) == [lease]
    assert await pending(pipeline, lease) == 1


async def test_a_name_alone_fences_nobody_but_name_and_count_do(stream: EventStream, pipeline: Pipeline, keys: Keys) -> None:
    reader = await reader_of(pipeline, keys)
    await stream.append(an_event())
    before_restart = await read_one(reader)
    after_restart = await leases.take_again(pipeline, keys=keys, reader=reader, place=(before_restart.stream, before_restart.entry_id))

    assert after_restart is not None
    assert after_restart.delivery_count == 2
    assert await settle_as(reader, pipeline, keys, (before_restart, Ack())) == [before_restart]
    assert await settle_as(reader, pipeline, keys, (after_restart, Ack())) == []


@pytest.mark.parametrize("settlement", SETTLEMENTS)
async def test_a_delivery_that_is_settled_twice_in_one_call_is_settled_once(
    stream: EventStream, pipeline: Pipeline, keys: Keys, client: Any, settlement: Settlement
) -> None:
    reader = await reader_of(pipeline, keys)
    await stream.append(an_event())
    lease = await read_one(reader)

    lost = await settle_as(reader, pipeline, keys, (lease, settlement), (lease, settlement))

    assert lost == [lease]
    kept = client.zcard(keys.delayed(lease.shard)) + client.xlen(keys.dead(lease.shard)) + client.xlen(keys.retry(lease.shard, "g"))
    kept += client.xlen(keys.parked(lease.shard, "g"))
    assert kept == (0 if settlement == Ack() else 1)


async def test_a_delivery_is_found_among_more_than_one_look_shows(stream: EventStream, pipeline: Pipeline, keys: Keys) -> None:
    reader = await reader_of(pipeline, keys)
    for _ in range(400):
        await stream.append(an_event(delivery_id="", key="one-shard"))
    taken = await reader.read(budget=5000, block_ms=1000)
    while more := await reader.read(budget=5000, block_ms=50):
        taken += more
    assert len(taken) == 400

    lost = await settle_as(reader, pipeline, keys, (taken[0], Ack()), (taken[-1], Ack()), (taken[200], Ack()))

    assert lost == []
    assert await pending(pipeline, taken[0]) == 397


async def test_a_delivery_that_is_held_back_stays_pending_under_its_new_count(stream: EventStream, pipeline: Pipeline, keys: Keys) -> None:
    reader = await reader_of(pipeline, keys)
    await stream.append(an_event())
    lease = await read_one(reader)
    held_back = HoldBack(0, delivery_count=7)

    assert await settle_as(reader, pipeline, keys, (lease, held_back)) == []
    assert await settle_as(reader, pipeline, keys, (lease, held_back)) == []  # the first reply never arrived
    assert await settle_as(reader, pipeline, keys, (lease, Ack())) == [lease]
    assert await settle_as(reader, pipeline, keys, (lease._replace(delivery_count=7), Ack())) == []
    assert await pending(pipeline, lease) == 0


async def test_deliveries_of_a_group_that_was_destroyed_are_lost(stream: EventStream, pipeline: Pipeline, keys: Keys, client: Any) -> None:
    reader = await reader_of(pipeline, keys)
    await stream.append(an_event())
    lease = await read_one(reader)
    client.xgroup_destroy(lease.stream, "g")

    assert await settle_as(reader, pipeline, keys, (lease, RetryLater(0, 1))) == [lease]
    assert client.xlen(keys.retry(lease.shard, "g")) == 0


async def test_a_decision_that_makes_no_sense_settles_nothing_beside_it_either(
    stream: EventStream, pipeline: Pipeline, keys: Keys, client: Any
) -> None:
    reader = await reader_of(pipeline, keys)
    for _ in range(3):
        await stream.append(an_event(key="one shard"))
    taken = await reader.read(budget=100, block_ms=1000)
    nonsense = RetryLater(1500.5, 1)  # type: ignore[arg-type]  # what a processor may ask for

    with pytest.raises(StreamUnavailable, match="makes no sense; nothing was settled"):
        await settle_as(reader, pipeline, keys, (taken[0], Ack()), (taken[1], nonsense), (taken[2], GIVE_UP))

    assert await pending(pipeline, taken[0]) == 3
    assert client.exists(keys.dead(taken[0].shard), keys.delayed(taken[0].shard)) == 0


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
    assert not {name.encode() for name in LOG_FIELDS} & again.fields.keys()  # they describe the old place
    assert await other.read(budget=100, block_ms=50) == []
    await settle_as(reader, pipeline, keys, (again, Ack()))
    assert client.xlen(again.stream) == 0


@pytest.mark.parametrize("settlement", [RetryLater(0, 1), RetryLater(1000, 1), Park(0)])
async def test_a_retry_or_parking_of_an_entry_that_was_trimmed_is_counted_as_lost(
    stream: EventStream, pipeline: Pipeline, keys: Keys, client: Any, settlement: Settlement
) -> None:
    reader = await reader_of(pipeline, keys)
    await stream.append(an_event())
    lease = await read_one(reader)
    client.xtrim(lease.stream, maxlen=0, approximate=False)

    assert await settle_as(reader, pipeline, keys, (lease, settlement)) == [lease]

    assert client.hget(keys.ledger(lease.shard), "lost:g") == b"1"
    assert await pending(pipeline, lease) == 0
    assert client.xlen(keys.retry(lease.shard, "g")) == 0
    assert client.exists(keys.delayed(lease.shard)) == 0


async def test_giving_up_an_entry_that_was_trimmed_leaves_a_letter_without_event_and_counts_it_as_lost(
    stream: EventStream, pipeline: Pipeline, keys: Keys, client: Any, log: LogSettings, home: Path
) -> None:
    reader = await reader_of(pipeline, keys)
    await stream.append(an_event())
    lease = await read_one(reader)
    client.xtrim(lease.stream, maxlen=0, approximate=False)

    assert await settle_as(reader, pipeline, keys, (lease, GIVE_UP)) == []

    dead_letters = DeadLetters.open(log, home=home)
    (letter,) = dead_letters.letters()
    assert (letter.reason, letter.event, letter.event_id) == ("because", None, "")
    assert dead_letters.requeue(letter) == "gone"
    dead_letters.close()
    assert client.hmget(keys.ledger(lease.shard), "lost:g", "dead:g") == [b"1", b"1"]
    ((_, stored),) = client.xrange(keys.dead(lease.shard))
    assert (stored[b"from"].decode(), stored[b"from_entry"].decode()) == (lease.stream, lease.entry_id)


@pytest.mark.parametrize("settlement", SETTLEMENTS[1:])
async def test_an_entry_with_more_fields_than_lua_can_pass_on_is_kept(
    pipeline: Pipeline, keys: Keys, client: Any, settlement: Settlement
) -> None:
    reader = await reader_of(pipeline, keys)
    add_foreign(client, keys.events(0, "default"), {f"field{n}": f"value{n}" for n in range(TOO_MANY)})
    lease = await read_one(reader)

    assert await settle_as(reader, pipeline, keys, (lease, settlement)) == []

    written = [client.xrange(keys.retry(0, "g")), client.xrange(keys.dead(0)), client.hvals(keys.delayed_bodies(0))]
    written.append(client.xrange(keys.parked(0, "g")))
    stored = repr(written)
    assert all(f"value{n}'" in stored or f"value{n}\\x" in stored for n in range(TOO_MANY))
    assert await pending(pipeline, lease) == 0


async def test_an_event_with_too_many_foreign_fields_stays_an_event_however_often_it_is_retried(
    stream: EventStream, pipeline: Pipeline, keys: Keys, client: Any
) -> None:
    reader = await reader_of(pipeline, keys)
    event = an_event()
    await stream.append(event)
    lease = await read_one(reader)
    foreign = {f"field{n}": "x" for n in range(TOO_MANY)}
    client.execute_command("XADD", lease.stream, "*", *[part for pair in [*lease.fields.items(), *foreign.items()] for part in pair])

    for retry_count in (1, 2):
        lease = await read_one(reader)
        await settle_as(reader, pipeline, keys, (lease, RetryLater(0, retry_count)))

    again = await read_one(reader)
    assert decode(again.fields) == event.model_copy(update={"retry_count": 2})
    assert len(again.fields) <= 1000


@pytest.mark.parametrize("settlement", SETTLEMENTS)
@pytest.mark.fault("B8")
async def test_settling_works_when_the_servers_memory_is_full(
    own_stream: EventStream, own_pipeline: Pipeline, own_client: Any, own_log: LogSettings, settlement: Settlement
) -> None:
    keys = Keys(own_log.prefix, 1)
    reader = await reader_of(own_pipeline, keys)
    await own_stream.append(an_event())
    lease = await read_one(reader)
    own_client.config_set("maxmemory", 1)

    lost = await settle_as(reader, own_pipeline, keys, (lease, settlement))

    streams = (keys.retry(0, "g"), keys.dead(0), keys.parked(0, "g"))
    written = sum(own_client.xlen(key) for key in streams) + own_client.zcard(keys.delayed(0))
    assert (lost, written) == ([], 0 if settlement == Ack() else 1)
