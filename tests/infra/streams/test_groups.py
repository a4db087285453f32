from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from infra.running.embedded import EmbeddedServer
from infra.settings import LogSettings
from infra.streams import groups
from infra.streams.connection import open_pipeline
from infra.streams.keys import Keys
from infra.streams.pipelining import Pipeline
from infra.streams.stream import EventStream
from schemas.errors import ConfigError
from tests.events import an_event
from tests.infra.streams.raw import open_raw


async def test_declaring_a_group_again_writes_nothing(pipeline: Pipeline, keys: Keys, client: Any) -> None:
    created = await groups.declare(pipeline, keys=keys, group="g")
    writes = client.info("persistence")["rdb_changes_since_last_save"]

    assert await groups.declare(pipeline, keys=keys, group="g") == 0

    assert client.info("persistence")["rdb_changes_since_last_save"] == writes
    assert created == 5 * keys.shards
    assert client.hget(keys.registry(0), "group:g") == b"durable"


async def test_a_group_that_vanished_comes_back_when_the_servers_memory_is_full(
    own_server: EmbeddedServer, own_log: LogSettings, home: Path
) -> None:
    stream, pipeline, client = EventStream.open(own_log, home=home), open_pipeline(own_log, home=home), open_raw(own_log, home=home)
    keys = Keys(own_log.prefix, 1)
    await stream.append(an_event())
    await groups.declare(pipeline, keys=keys, group="g")
    client.xgroup_destroy(keys.events(0, "default"), "g")
    client.config_set("maxmemory", 1)

    assert await groups.declare(pipeline, keys=keys, group="g") == 1

    (group,) = client.xinfo_groups(keys.events(0, "default"))
    assert (group["name"], group["last-delivered-id"]) == (b"g", b"0-0")  # at the start of what there is, never at `$`
    client.close()
    await stream.close()
    await pipeline.close()


async def test_a_group_is_not_declared_on_shards_that_the_log_lacks(
    stream: EventStream, pipeline: Pipeline, keys: Keys, client: Any
) -> None:
    await stream.append(an_event())
    more = Keys(keys.prefix, keys.shards + 1)

    with pytest.raises(ConfigError, match="this log was begun with 4 shards"):
        await groups.declare(pipeline, keys=more, group="g")

    assert not client.exists(more.registry(keys.shards))
