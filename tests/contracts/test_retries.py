"""A retry waits for the server's clock and comes back once, to its own group."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from infra.running.embedded import EmbeddedServer
from infra.settings import LogSettings
from infra.streams.connection import open_pipeline
from infra.streams.delayed import bring_forward, count_waiting, promote_due
from infra.streams.keys import Keys
from infra.streams.pipelining import Pipeline
from infra.streams.settle import RetryLater
from infra.streams.stream import EventStream
from tests.events import an_event
from tests.infra.streams.deliveries import TOO_MANY, add_foreign, make_due, read_all, read_one, reader_of, settle_as
from tests.infra.streams.raw import open_raw


async def test_a_delayed_retry_waits_for_the_servers_clock(stream: EventStream, pipeline: Pipeline, keys: Keys, client: Any) -> None:
    reader = await reader_of(pipeline, keys)
    await stream.append(an_event())
    lease = await read_one(reader)
    await settle_as(reader, pipeline, keys, (lease, RetryLater(60_000, 2)))

    assert await promote_due(pipeline, keys=keys) == 0
    make_due(client, keys.delayed(lease.shard))
    assert await promote_due(pipeline, keys=keys) == 1

    assert (await read_one(reader)).fields[b"retry_count"] == b"2"
    assert client.exists(keys.delayed(lease.shard), keys.delayed_bodies(lease.shard)) == 0


@pytest.mark.fault("D8")
async def test_what_is_due_comes_back_once_however_many_promote_it(
    stream: EventStream, pipeline: Pipeline, keys: Keys, client: Any
) -> None:
    reader = await reader_of(pipeline, keys)
    for _ in range(5):
        await stream.append(an_event(key="one shard"))
    taken = await read_all(reader)
    await settle_as(reader, pipeline, keys, *((lease, RetryLater(1000, 1)) for lease in taken))
    make_due(client, keys.delayed(taken[0].shard))

    moved = await asyncio.gather(*[promote_due(pipeline, keys=keys) for _ in range(10)])

    assert sum(moved) == 5
    again = await read_all(reader)
    assert sorted(lease.fields[b"id"] for lease in again) == sorted(lease.fields[b"id"] for lease in taken)


async def test_entries_of_two_streams_with_the_same_id_both_wait_and_both_come_back(pipeline: Pipeline, keys: Keys, client: Any) -> None:
    reader = await reader_of(pipeline, keys)
    for name in ("urgent", "default"):
        client.xadd(keys.events(0, name), {"from": name}, id="1000-1")
    taken = await reader.read(budget=100, block_ms=1000)

    await settle_as(reader, pipeline, keys, *((lease, RetryLater(1000, 1)) for lease in taken))
    waiting = client.zcard(keys.delayed(0))
    make_due(client, keys.delayed(0))
    await promote_due(pipeline, keys=keys)

    again = await reader.read(budget=100, block_ms=1000)
    assert waiting == 2
    assert {lease.fields[b"from"] for lease in again} == {b"urgent", b"default"}


async def test_a_retry_whose_body_is_gone_is_counted_as_lost_and_holds_up_nothing(
    stream: EventStream, pipeline: Pipeline, keys: Keys, client: Any
) -> None:
    reader = await reader_of(pipeline, keys)
    for _ in range(3):
        await stream.append(an_event(key="one shard"))
    taken = await reader.read(budget=100, block_ms=1000)
    shard = taken[0].shard
    await settle_as(reader, pipeline, keys, *((lease, RetryLater(1000, 1)) for lease in taken))
    make_due(client, keys.delayed(shard))
    client.hdel(keys.delayed_bodies(shard), client.zrange(keys.delayed(shard), 0, 0)[0])

    assert await promote_due(pipeline, keys=keys) == 2

    assert len(await reader.read(budget=100, block_ms=1000)) == 2
    assert client.hget(keys.ledger(shard), "lost:g") == b"1"
    assert client.exists(keys.delayed(shard)) == 0


async def test_an_entry_with_more_fields_than_lua_can_pass_on_comes_back(pipeline: Pipeline, keys: Keys, client: Any) -> None:
    reader = await reader_of(pipeline, keys)
    add_foreign(client, keys.events(0, "default"), {f"field{n}": "x" for n in range(TOO_MANY)})
    await settle_as(reader, pipeline, keys, (await read_one(reader), RetryLater(1000, 1)))
    make_due(client, keys.delayed(0))

    assert await promote_due(pipeline, keys=keys) == 1

    again = await read_one(reader)
    assert again.fields[b"field0"] == b"x"
    assert f"field{TOO_MANY - 1}".encode() in again.fields[b"raw_fields"]


async def test_due_retries_come_back_when_the_servers_memory_is_full(own_server: EmbeddedServer, own_log: LogSettings, home: Path) -> None:
    stream, pipeline, client = EventStream.open(own_log, home=home), open_pipeline(own_log, home=home), open_raw(own_log, home=home)
    keys = Keys(own_log.prefix, 1)
    reader = await reader_of(pipeline, keys)
    await stream.append(an_event())
    await settle_as(reader, pipeline, keys, (await read_one(reader), RetryLater(1000, 1)))
    make_due(client, keys.delayed(0))
    client.config_set("maxmemory", 1)

    assert await promote_due(pipeline, keys=keys) == 1

    assert client.xlen(keys.retry(0, "g")) == 1
    client.close()
    await stream.close()
    await pipeline.close()


async def test_time_can_be_made_to_pass_for_what_waits(stream: EventStream, pipeline: Pipeline, keys: Keys) -> None:
    reader = await reader_of(pipeline, keys)
    await stream.append(an_event())
    await settle_as(reader, pipeline, keys, (await read_one(reader), RetryLater(3_600_000, 1)))

    await bring_forward(pipeline, keys=keys, by_ms=3_000_000)
    assert (await promote_due(pipeline, keys=keys), await count_waiting(pipeline, keys=keys)) == (0, 1)
    await bring_forward(pipeline, keys=keys, by_ms=600_000)
    assert (await promote_due(pipeline, keys=keys), await count_waiting(pipeline, keys=keys)) == (1, 0)


async def test_what_is_promoted_while_time_is_made_to_pass_is_not_put_back(
    stream: EventStream, pipeline: Pipeline, keys: Keys, client: Any
) -> None:
    reader = await reader_of(pipeline, keys)
    for _ in range(40):
        await stream.append(an_event(key="one shard"))
    taken = await reader.read(budget=1000, block_ms=1000)
    await settle_as(reader, pipeline, keys, *((lease, RetryLater(1000, 1)) for lease in taken))
    make_due(client, keys.delayed(taken[0].shard))

    await asyncio.gather(bring_forward(pipeline, keys=keys, by_ms=1), promote_due(pipeline, keys=keys))

    assert await count_waiting(pipeline, keys=keys) == 0
    assert client.xlen(keys.retry(taken[0].shard, "g")) == 40
