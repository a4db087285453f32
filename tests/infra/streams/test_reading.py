"""How many commands a reader sends for what it is handed."""

from __future__ import annotations

from collections import Counter
from typing import Any

from infra.streams.budget import WEIGHTS
from infra.streams.keys import Keys
from infra.streams.pipelining import Pipeline
from infra.streams.stream import EventStream
from schemas.event import Priority
from tests.events import an_event
from tests.infra.streams.deliveries import reader_of


def reads_so_far(client: Any) -> int:
    return int(client.info("commandstats")["cmdstat_xreadgroup"]["calls"])


async def test_whoever_keeps_up_with_a_steady_flow_reads_by_one_command_at_a_time(
    stream: EventStream, pipeline: Pipeline, keys: Keys, client: Any
) -> None:
    reader = await reader_of(pipeline, keys)
    await reader.read(budget=256, block_ms=1)
    before, found = reads_so_far(client), 0

    for _ in range(10):
        await stream.append(an_event())
        found += len(await reader.read(budget=256, block_ms=1000))

    assert found == 10
    assert reads_so_far(client) - before == 10


async def test_a_class_that_has_more_than_was_asked_for_is_given_its_share_by_the_next_read(
    stream: EventStream, pipeline: Pipeline, keys: Keys, client: Any
) -> None:
    reader = await reader_of(pipeline, keys)
    for priority in [Priority.LOW] * 200 + [Priority.DEFAULT] * 200:
        await stream.append(an_event(priority=priority, key="one shard"))
    first = await reader.read(budget=256, block_ms=1000)
    before = reads_so_far(client)

    second = await reader.read(budget=256, block_ms=1000)

    counts = [Counter(reader.kind_of(lease.stream) for lease in leases) for leases in (first, second)]
    assert counts[0]["low"] == counts[0]["default"] == 256 // (len(WEIGHTS) * keys.shards)
    assert counts[1]["default"] > 3 * counts[1]["low"] > 0
    assert reads_so_far(client) - before == len(WEIGHTS)
