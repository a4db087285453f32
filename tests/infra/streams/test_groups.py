from __future__ import annotations

from typing import Any

import pytest

from infra.streams import groups
from infra.streams.keys import Keys
from infra.streams.pipelining import Pipeline
from infra.streams.stream import EventStream
from schemas.errors import ConfigError
from tests.events import an_event


async def test_declaring_a_group_again_writes_nothing(pipeline: Pipeline, keys: Keys, client: Any) -> None:
    created = await groups.declare(pipeline, keys=keys, group="g")
    writes = client.info("persistence")["rdb_changes_since_last_save"]

    assert await groups.declare(pipeline, keys=keys, group="g") == 0

    assert client.info("persistence")["rdb_changes_since_last_save"] == writes
    assert created == 6 * keys.shards
    assert client.hget(keys.registry(0), "group:g") == b"durable"


async def test_a_group_is_not_declared_on_shards_that_the_log_lacks(
    stream: EventStream, pipeline: Pipeline, keys: Keys, client: Any
) -> None:
    await stream.append(an_event())
    more = Keys(keys.prefix, keys.shards + 1)

    with pytest.raises(ConfigError, match="this log was begun with 4 shards"):
        await groups.declare(pipeline, keys=more, group="g")

    assert not client.exists(more.registry(keys.shards))
