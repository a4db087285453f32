"""Consumers that will never come back are removed, and nothing that anybody holds is."""

from __future__ import annotations

from typing import Any

import pytest

from infra.streams import janitor
from infra.streams.keys import Keys
from infra.streams.pipelining import Pipeline
from infra.streams.stream import EventStream
from tests.events import an_event
from tests.infra.streams.deliveries import read_one, reader_of


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


async def test_a_consumer_that_was_there_a_moment_ago_stays(stream: EventStream, pipeline: Pipeline, keys: Keys, client: Any) -> None:
    reader = await reader_of(pipeline, keys)
    await stream.append(an_event())
    await reader.read(budget=100, block_ms=1000)

    assert await janitor.reap(pipeline, keys=keys, group="g") == 0


async def test_a_group_that_does_not_exist_has_nobody_to_remove(pipeline: Pipeline, keys: Keys) -> None:
    assert await janitor.reap(pipeline, keys=keys, group="nobody") == 0
