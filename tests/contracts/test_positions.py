"""A group that vanished comes back where it had settled everything, and never beyond: nothing it has not settled is skipped."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from infra.running.embedded import EmbeddedServer
from infra.settings import LogSettings
from infra.streams import groups, janitor
from infra.streams.connection import open_pipeline
from infra.streams.keys import Keys
from infra.streams.lag import read_lag
from infra.streams.pipelining import Pipeline
from infra.streams.reading import GroupReader, Lease
from infra.streams.settle import Ack
from infra.streams.stream import EventStream
from tests.infra.streams.deliveries import append_ten, read_all, reader_of, settle_as
from tests.infra.streams.raw import open_raw


@pytest.fixture
def log(log: LogSettings) -> LogSettings:
    return log.model_copy(update={"shards": 1})


async def settled_but(reader: GroupReader, pipeline: Pipeline, keys: Keys, *, left: list[str]) -> None:
    """Reads everything and acks it, but for these entry ids; then the janitor comes by."""
    taken: list[Lease] = await read_all(reader)
    await settle_as(reader, pipeline, keys, *((lease, Ack()) for lease in taken if lease.entry_id not in left))
    await janitor.trim(pipeline, keys=keys)


async def destroyed_and_declared(client: Any, pipeline: Pipeline, keys: Keys, reader: GroupReader) -> list[str]:
    """The entry ids that the group is handed after it vanished."""
    client.xgroup_destroy(keys.events(0, "default"), "g")
    assert await groups.declare(pipeline, keys=keys, group="g") == 1
    return [lease.entry_id for lease in await read_all(reader)]


@pytest.mark.parametrize("left", [[], [3], [3, 7], [0], [9]])
@pytest.mark.fault("D10")
async def test_a_group_that_vanished_gets_what_it_has_not_settled_and_little_else(
    stream: EventStream, pipeline: Pipeline, keys: Keys, client: Any, left: list[int]
) -> None:
    reader = await reader_of(pipeline, keys)
    ids = await append_ten(stream)
    await settled_but(reader, pipeline, keys, left=[ids[index] for index in left])
    later = await append_ten(stream)

    handed = await destroyed_and_declared(client, pipeline, keys, reader)

    assert handed == [*(ids[left[0] :] if left else []), *later]
    assert [lag.undelivered for lag in await read_lag(pipeline, keys=keys, group="g") if lag.pending] == [0]


async def test_the_servers_lag_of_a_group_that_came_back_is_right(stream: EventStream, pipeline: Pipeline, keys: Keys, client: Any) -> None:
    reader = await reader_of(pipeline, keys)
    ids = await append_ten(stream)
    await settled_but(reader, pipeline, keys, left=[ids[6]])
    client.xgroup_destroy(keys.events(0, "default"), "g")
    await groups.declare(pipeline, keys=keys, group="g")

    lags = {lag.stream: lag.undelivered for lag in await read_lag(pipeline, keys=keys, group="g")}

    assert lags["0:events:default"] == 4


async def test_a_position_of_another_incarnation_is_not_believed(stream: EventStream, pipeline: Pipeline, keys: Keys, client: Any) -> None:
    reader = await reader_of(pipeline, keys)
    ids = await append_ten(stream)
    await settled_but(reader, pipeline, keys, left=[])
    client.hset(keys.ledger(0), "incarnation", "another1")

    assert await destroyed_and_declared(client, pipeline, keys, reader) == ids


async def test_a_position_above_the_streams_newest_entry_is_not_believed(
    stream: EventStream, pipeline: Pipeline, keys: Keys, client: Any
) -> None:
    """The stream was made anew and the clock set back: a group up there would read nothing for ever, and show no lag."""
    reader = await reader_of(pipeline, keys)
    await append_ten(stream)
    await settled_but(reader, pipeline, keys, left=[])
    client.delete(keys.events(0, "default"))
    client.xadd(keys.events(0, "default"), {"incarnation": "x", "sequence": 11}, id="1000-0")

    assert await groups.declare(pipeline, keys=keys, group="g") == 1
    assert [lease.entry_id for lease in await read_all(reader)] == ["1000-0"]


async def test_an_archived_event_that_the_group_has_not_settled_is_not_skipped(
    stream: EventStream, pipeline: Pipeline, keys: Keys, client: Any, archive_log: Any
) -> None:
    reader = await reader_of(pipeline, keys)
    ids = await append_ten(stream)
    archive_log.move({end.stream: end.last for end in archive_log.ends()})
    await janitor.trim(pipeline, keys=keys)

    assert await destroyed_and_declared(client, pipeline, keys, reader) == ids


@pytest.mark.fault("B8")
async def test_positions_are_noted_when_the_servers_memory_is_full(own_server: EmbeddedServer, own_log: LogSettings, home: Path) -> None:
    stream, pipeline, client = EventStream.open(own_log, home=home), open_pipeline(own_log, home=home), open_raw(own_log, home=home)
    keys = Keys(own_log.prefix, 1)
    reader = await reader_of(pipeline, keys)
    ids = await append_ten(stream)
    client.config_set("maxmemory", 1)

    await settled_but(reader, pipeline, keys, left=[ids[9]])

    assert await destroyed_and_declared(client, pipeline, keys, reader) == ids[9:]
    client.close()
    await stream.close()
    await pipeline.close()
