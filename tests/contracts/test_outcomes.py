"""What is settled is recorded, one entry per settled batch; whoever lost its lease records nothing, and the record never fills the log."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from infra.streams import janitor, leases
from infra.streams.entries import as_fields
from infra.streams.keys import ARCHIVE_GROUP, Keys
from infra.streams.once import OnceWrite
from infra.streams.outcomes import unpack
from infra.streams.pipelining import Pipeline
from infra.streams.settle import Ack, AckOnce, RetryLater
from infra.streams.stream import EventStream
from schemas.outcome import Outcome, Ran
from tests.events import an_event
from tests.infra.streams.deliveries import GIVE_UP, read_all, read_one, reader_of, settle_as


def ran(number: int) -> Ran:
    return Ran(f"event-{number}", "m:f", 1, 1_700_000_000_000 + number, 2.5)


async def recorded(pipeline: Pipeline, keys: Keys) -> list[list[Outcome]]:
    """Batch by batch."""
    entries = [await pipeline.call("XRANGE", keys.outcomes(shard), "-", "+") for shard in keys.all_shards()]
    return [unpack(as_fields(flat)) for of_shard in entries for _, flat in of_shard]


async def test_a_settled_batch_is_one_record(stream: EventStream, pipeline: Pipeline, keys: Keys) -> None:
    reader = await reader_of(pipeline, keys)
    for number in range(3):
        await stream.append(an_event(key="one-shard", delivery_id=str(number)))
    first, second, third = await read_all(reader)

    await settle_as(reader, pipeline, keys, (first, Ack(ran(1))), (second, RetryLater(1000, 1, ran=ran(2))), (third, Ack()))

    # What was settled without an attempt is no outcome.
    assert await recorded(pipeline, keys) == [[Outcome("g", "c1", "ack", ran(1)), Outcome("g", "c1", "retry", ran(2))]]


async def test_whoever_lost_its_lease_records_nothing(stream: EventStream, pipeline: Pipeline, keys: Keys) -> None:
    zombie, other = await reader_of(pipeline, keys), await reader_of(pipeline, keys, consumer="c2")
    for number in range(2):
        await stream.append(an_event(key="one-shard", delivery_id=str(number)))
    lost, kept = await read_all(zombie)
    await pipeline.call("XCLAIM", lost.stream, "g", "c2", 0, lost.entry_id)

    await settle_as(zombie, pipeline, keys, (lost, Ack(ran(1))), (kept, Ack(ran(2))))
    await settle_as(zombie, pipeline, keys, (lost, Ack(ran(1))))

    assert await recorded(pipeline, keys) == [[Outcome("g", "c1", "ack", ran(2))]]
    taken = await leases.take_again(pipeline, keys=keys, reader=other, place=(lost.stream, lost.entry_id))
    assert taken is not None
    await settle_as(other, pipeline, keys, (taken, GIVE_UP))
    assert len(await recorded(pipeline, keys)) == 1


async def test_an_ack_whose_writes_are_refused_is_recorded_as_a_dead_letter(
    stream: EventStream, pipeline: Pipeline, keys: Keys, client: Any
) -> None:
    reader = await reader_of(pipeline, keys)
    for number in range(2):
        await stream.append(an_event(key="one-shard", delivery_id=str(number)))
    bad, good = await read_all(reader)
    client.set(keys.once_key(bad.shard, "g", kind="counts", name="spoilt"), "a string")
    spoilt, fine = OnceWrite("counts", "spoilt", "", "1"), OnceWrite("counts", "fine", "", "1")
    decisions = [
        (lease, AckOnce(lease.fields[b"id"].decode(), (write,), replace(GIVE_UP, ran=ran(number))))
        for number, (lease, write) in enumerate([(bad, spoilt), (good, fine)])
    ]

    await settle_as(reader, pipeline, keys, *decisions)

    assert await recorded(pipeline, keys) == [[Outcome("g", "c1", "dead_letter", ran(0)), Outcome("g", "c1", "ack", ran(1))]]


async def test_records_are_numbered_without_gaps(stream: EventStream, pipeline: Pipeline, keys: Keys, client: Any) -> None:
    reader = await reader_of(pipeline, keys)
    for number in range(3):
        await stream.append(an_event(key="one-shard", delivery_id=str(number)))
        lease = await read_one(reader)
        await settle_as(reader, pipeline, keys, (lease, Ack(ran(number))))

    entries = client.xrange(keys.outcomes(lease.shard))

    assert [int(fields[b"sequence"]) for _, fields in entries] == [1, 2, 3]
    assert {fields[b"incarnation"] for _, fields in entries} == {client.hget(keys.ledger(lease.shard), "incarnation")}


async def test_without_an_archive_only_the_newest_records_stay_and_the_others_are_counted(
    pipeline: Pipeline, keys: Keys, client: Any
) -> None:
    for number in range(janitor.KEPT_OUTCOMES + 5):
        client.xadd(keys.outcomes(0), {"n": number})

    removed = await janitor.trim_outcomes(pipeline, keys=keys)

    assert (removed, client.hget(keys.ledger(0), "dropped:outcomes")) == (5, b"5")
    assert client.xrange(keys.outcomes(0), count=1)[0][1] == {b"n": b"5"}


async def test_records_are_never_trimmed_before_the_archive_has_them(pipeline: Pipeline, keys: Keys, client: Any) -> None:
    ids = [client.xadd(keys.outcomes(0), {"n": number}) for number in range(janitor.KEPT_OUTCOMES + 5)]
    client.xgroup_create(keys.outcomes(0), ARCHIVE_GROUP, "0")

    assert await janitor.trim_outcomes(pipeline, keys=keys) == 0

    client.xgroup_setid(keys.outcomes(0), ARCHIVE_GROUP, ids[9])
    assert await janitor.trim_outcomes(pipeline, keys=keys) == 10
    client.xreadgroup(ARCHIVE_GROUP, "c", {keys.outcomes(0): ">"}, count=5)
    assert await janitor.trim_outcomes(pipeline, keys=keys) == 0
