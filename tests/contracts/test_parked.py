"""An entry of a version that its worker cannot read waits, whole, for one that can: it is neither dropped nor a dead letter."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from infra.running.embedded import EmbeddedServer
from infra.settings import LogSettings
from infra.streams.connection import open_pipeline
from infra.streams.keys import Keys
from infra.streams.parked import AT_ONCE, Parked, count_parked
from infra.streams.pipelining import Pipeline
from infra.streams.positions import id_order
from infra.streams.settle import Park
from infra.streams.stream import EventStream
from tests.events import an_event
from tests.infra.streams.deliveries import pending, read_all, read_one, reader_of, settle_as
from tests.infra.streams.raw import open_raw

OLD, NEW = frozenset({1}), frozenset({1, 2})


async def test_a_parked_entry_comes_back_whole_to_who_can_read_it(stream: EventStream, pipeline: Pipeline, keys: Keys, client: Any) -> None:
    reader, event = await reader_of(pipeline, keys), an_event(version=2)
    await stream.append(event)
    lease = await read_one(reader)

    assert await settle_as(reader, pipeline, keys, (lease, Park(3))) == []
    assert (await pending(pipeline, lease), await count_parked(pipeline, keys=keys, group="g")) == (0, 1)
    assert await Parked(pipeline, keys=keys, group="g", versions=OLD).take_back() == 0
    assert await Parked(pipeline, keys=keys, group="g", versions=NEW).take_back() == 1

    again = await read_one(reader)
    assert (again.fields[b"id"], again.fields[b"version"]) == (event.id.encode(), b"2")
    assert (again.fields[b"payload"], again.fields[b"retry_count"]) == (event.payload, b"3")
    assert again.stream == keys.retry(lease.shard, "g")
    assert id_order(again.entry_id) > id_order(lease.entry_id)  # so its fence token is larger too
    assert client.exists(keys.parked(lease.shard, "g")) == 0


async def test_a_parked_entry_comes_back_once_however_many_take_it(stream: EventStream, pipeline: Pipeline, keys: Keys) -> None:
    reader = await reader_of(pipeline, keys)
    for _ in range(5):
        await stream.append(an_event(version=2, key="one shard"))
    taken = await read_all(reader)
    await settle_as(reader, pipeline, keys, *((lease, Park(0)) for lease in taken))

    moved = await asyncio.gather(*[Parked(pipeline, keys=keys, group="g", versions=NEW).take_back() for _ in range(10)])

    assert sum(moved) == 5
    assert sorted(lease.fields[b"id"] for lease in await read_all(reader)) == sorted(lease.fields[b"id"] for lease in taken)


async def test_what_nobody_can_read_hides_nothing_behind_it(stream: EventStream, pipeline: Pipeline, keys: Keys) -> None:
    reader = await reader_of(pipeline, keys)
    for version in [3] * (2 * AT_ONCE + 1) + [2]:
        await stream.append(an_event(version=version, key="one shard", delivery_id=""))
        await settle_as(reader, pipeline, keys, (await read_one(reader), Park(0)))
    parked = Parked(pipeline, keys=keys, group="g", versions=NEW)

    rounds = [await parked.take_back() for _ in range(3)]

    assert rounds == [0, 0, 1]
    assert await count_parked(pipeline, keys=keys, group="g") == 2 * AT_ONCE + 1


async def test_parked_entries_are_taken_back_when_the_servers_memory_is_full(
    own_server: EmbeddedServer, own_log: LogSettings, home: Path
) -> None:
    stream, pipeline, client = EventStream.open(own_log, home=home), open_pipeline(own_log, home=home), open_raw(own_log, home=home)
    keys = Keys(own_log.prefix, 1)
    reader = await reader_of(pipeline, keys)
    await stream.append(an_event(version=2))
    await settle_as(reader, pipeline, keys, (await read_one(reader), Park(0)))
    client.config_set("maxmemory", 1)

    assert await Parked(pipeline, keys=keys, group="g", versions=NEW).take_back() == 1

    assert client.xlen(keys.retry(0, "g")) == 1
    client.close()
    await stream.close()
    await pipeline.close()
