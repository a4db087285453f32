"""Consumers that will never come back are removed, and nothing that anybody holds is."""

from __future__ import annotations

from typing import Any

import pytest

from infra.streams import janitor, leases
from infra.streams.keys import Keys
from infra.streams.pipelining import Pipeline
from infra.streams.reading import GroupReader, group_streams
from infra.streams.settle import Ack
from infra.streams.stream import EventStream
from tests.events import an_event
from tests.infra.streams.deliveries import read_one, reader_of, settle_as


@pytest.mark.fault("D9")
async def test_a_silent_consumer_that_holds_nothing_is_removed_and_one_that_holds_something_is_not(
    stream: EventStream, pipeline: Pipeline, keys: Keys, client: Any
) -> None:
    holder = await reader_of(pipeline, keys, consumer="holder")
    await stream.append(an_event())
    lease = await read_one(holder)
    for number in range(20):
        client.xgroup_createconsumer(lease.stream, "g", f"gone-{number}")

    removed = await janitor.reap(pipeline, keys=keys, group="g", silent_ms=-1)

    assert removed >= 20
    assert [consumer["name"] for consumer in client.xinfo_consumers(lease.stream, "g")] == [b"holder"]
    assert client.xpending(lease.stream, "g")["pending"] == 1


@pytest.mark.fault("D9")
async def test_workers_that_come_and_go_leave_no_names_and_nothing_undone(
    stream: EventStream, pipeline: Pipeline, keys: Keys, client: Any, times: int
) -> None:
    """Each under a name of its own, as containers have; as many processes would take hours, and the log knows no more of them."""
    lives, last = 50 if times == 1 else 10_000, await reader_of(pipeline, keys, consumer="last")
    left = set()
    for life in range(lives):
        reader = GroupReader(pipeline, keys=keys, group="g", consumer=f"container-{life}")
        await stream.append(event := an_event(key="one shard"))
        (lease,) = await reader.read(budget=100, block_ms=1000)
        if life % 10 == 0:
            left.add(event.id)  # It dies with this in hand.
        else:
            await settle_as(reader, pipeline, keys, (lease, Ack()))
        if life % 1000 == 999:
            await janitor.reap(pipeline, keys=keys, group="g", silent_ms=0)
    found = set()
    while (taken := await leases.claim_idle(pipeline, keys=keys, reader=last, lease_ms=0)) is not None:
        found.add(taken.fields[b"id"].decode())
        await settle_as(last, pipeline, keys, (taken, Ack()))

    await janitor.reap(pipeline, keys=keys, group="g", silent_ms=-1)

    streams = group_streams(keys, shard=keys.shard_of(an_event(key="one shard")), group="g")
    assert found == left
    assert [client.xinfo_consumers(name, "g") for name in streams] == [[]] * len(streams)


async def test_a_consumer_that_was_there_a_moment_ago_stays(stream: EventStream, pipeline: Pipeline, keys: Keys, client: Any) -> None:
    reader = await reader_of(pipeline, keys)
    await stream.append(an_event())
    await reader.read(budget=100, block_ms=1000)

    assert await janitor.reap(pipeline, keys=keys, group="g") == 0


async def test_a_group_that_does_not_exist_has_nobody_to_remove(pipeline: Pipeline, keys: Keys) -> None:
    assert await janitor.reap(pipeline, keys=keys, group="nobody") == 0
