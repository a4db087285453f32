"""A group is removed with everything it has, by hand or when its time is over, and never while it lives."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from infra.clock import Clock
from infra.settings import LogSettings
from infra.streams import groups, janitor
from infra.streams.group_removal import GroupRemoval, reap_groups
from infra.streams.keys import Keys
from infra.streams.once import OnceWrite
from infra.streams.overview import overview
from infra.streams.pipelining import Pipeline
from infra.streams.reading import group_streams
from infra.streams.settle import AckOnce, Park, RetryLater
from infra.streams.stream import EventStream
from tests.events import an_event
from tests.infra.streams.deliveries import GIVE_UP, reader_of, settle_as

HOUR_MS = 3_600_000


@pytest.fixture
def removal(log: LogSettings, home: Path) -> Iterator[GroupRemoval]:
    opened = GroupRemoval.open(log, home=home)
    yield opened
    opened.close()


async def fill(stream: EventStream, pipeline: Pipeline, keys: Keys, *, group: str) -> None:
    """Of six events one was counted, one is a dead letter, one waits, one was retried at once, one is in work, and one is new."""
    reader = await reader_of(pipeline, keys, group=group)
    for _ in range(5):
        await stream.append(an_event(key="one shard"))
    taken = await reader.read(budget=500, block_ms=1000)
    counted = AckOnce(taken[4].fields[b"id"].decode(), (OnceWrite("counts", "events", "", "1"),), GIVE_UP)
    decisions = [(taken[0], GIVE_UP), (taken[1], RetryLater(HOUR_MS, 1)), (taken[2], RetryLater(0, 1)), (taken[4], counted)]
    await settle_as(reader, pipeline, keys, *decisions)  # type: ignore[arg-type]
    await stream.append(an_event(key="one shard"))


def make_idle(client: Any, keys: Keys, *, group: str, ms: int) -> None:
    """As if the last sign of life were so long ago: the server's clock cannot be moved, and its own idle times only grow."""
    for shard in keys.all_shards():
        client.hincrby(keys.registry(shard), f"alive:{group}", -ms)
        for stream in group_streams(keys, shard=shard, group=group):
            for consumer in client.xinfo_consumers(stream, group) if client.exists(stream) else []:
                assert consumer["pending"] == 0 or ms == 0
                client.xgroup_delconsumer(stream, group, consumer["name"])


def keys_of(client: Any, keys: Keys, *, group: str) -> list[str]:
    return [key.decode() for key in client.keys(f"{keys.prefix}*") if f":{group}:" in f"{key.decode()}:"]


async def test_what_would_be_dropped_is_counted_first(
    stream: EventStream, pipeline: Pipeline, keys: Keys, removal: GroupRemoval, client: Any
) -> None:
    await fill(stream, pipeline, keys, group="g")

    found = removal.count("g", least_idle_ms=0)

    assert (found.status, found.pending, found.undelivered, found.waiting) == ("counted", 1, 2, 1)
    assert found.written == ["counts:events"]
    assert client.hget(keys.registry(0), "group:g") == b"durable"
    assert len((await overview(pipeline, keys=keys)).groups) == 1


async def test_a_removed_group_leaves_nothing_but_its_dead_letters(
    stream: EventStream, pipeline: Pipeline, keys: Keys, removal: GroupRemoval, client: Any
) -> None:
    await fill(stream, pipeline, keys, group="g")
    await fill(stream, pipeline, keys, group="g2")
    await stream.append(an_event(), deliver_at=Clock().now() + timedelta(hours=1))
    client.set(keys.lease(1, "g"), "c1")
    await janitor.trim(pipeline, keys=keys)  # writes their positions down
    client.zadd(keys.members("g"), {"c1": 1})

    removed = removal.remove("g", least_idle_ms=0)
    await janitor.trim(pipeline, keys=keys)  # the next round forgets how far it had been handed its streams

    assert removed.status == "removed"
    registry = client.hgetall(keys.registry(0))
    of_streams = [json.loads(registry.pop(field)) for field in list(registry) if field.startswith(b"gaps:")]
    assert {group for seen in of_streams for group in seen["read"]} == {"g2"}
    assert {field.split(b":")[1] for field in registry if field != b"shards"} == {b"g2"}
    assert keys_of(client, keys, group="g") == []
    once = [keys.once(shard, "g2") for shard in keys.all_shards()]
    own = {key for shard in keys.all_shards() for key in (keys.retry(shard, "g2"), keys.replay(shard, "g2"))}
    kept = {*own, *once, *(f"{key}:counts:events" for key in once)}
    assert {key for key in kept if client.exists(key)} == set(keys_of(client, keys, group="g2"))
    assert sum(client.hvals(f"{key}:counts:events") == [b"1"] for key in once) == 1
    found = await overview(pipeline, keys=keys)
    assert [state.group for state in found.groups] == ["g2"]
    assert (found.waiting_retries, found.scheduled, found.open_dead_letters) == (1, 1, 2)
    on_streams = [client.xinfo_groups(name) for shard in keys.all_shards() for name in keys.event_streams(shard)]
    assert {group["name"] for named in on_streams for group in named} == {b"g2"}
    assert removal.remove("g", least_idle_ms=0).status == removal.count("nobody", least_idle_ms=0).status == "unknown"


async def test_a_group_that_lives_is_not_removed(pipeline: Pipeline, keys: Keys, removal: GroupRemoval, client: Any) -> None:
    await groups.declare(pipeline, keys=keys, group="g")

    alive = removal.remove("g", least_idle_ms=60_000)
    make_idle(client, keys, group="g", ms=61_000)
    await groups.note_alive(pipeline, keys=keys, group="g")
    again = removal.remove("g", least_idle_ms=60_000)
    make_idle(client, keys, group="g", ms=61_000)

    assert alive.status == again.status == "alive"
    assert removal.count("g", least_idle_ms=60_000).status == "counted"
    assert removal.remove("g", least_idle_ms=60_000).status == "removed"


async def test_a_consumer_that_did_something_is_a_sign_of_life_too(
    stream: EventStream, pipeline: Pipeline, keys: Keys, removal: GroupRemoval, client: Any
) -> None:
    reader = await reader_of(pipeline, keys)
    make_idle(client, keys, group="g", ms=HOUR_MS)
    await stream.append(an_event())
    await reader.read(budget=100, block_ms=1000)

    assert removal.remove("g", least_idle_ms=60_000).status == "alive"


async def test_a_worker_of_a_removed_group_does_not_bring_its_registration_back(
    pipeline: Pipeline, keys: Keys, removal: GroupRemoval, client: Any
) -> None:
    await groups.declare(pipeline, keys=keys, group="g")
    removal.remove("g", least_idle_ms=0)

    await groups.note_alive(pipeline, keys=keys, group="g")

    assert client.hkeys(keys.registry(0)) == [b"shards"]


async def test_an_ephemeral_group_is_reaped_after_its_time_and_a_durable_one_never(
    stream: EventStream, pipeline: Pipeline, keys: Keys, client: Any
) -> None:
    await groups.declare(pipeline, keys=keys, group="short", kind="ephemeral", ttl_ms=HOUR_MS)
    await groups.declare(pipeline, keys=keys, group="long")
    await stream.append(an_event())

    young = await reap_groups(pipeline, keys=keys)
    make_idle(client, keys, group="short", ms=HOUR_MS + 1000)
    make_idle(client, keys, group="long", ms=1000 * HOUR_MS)
    old = await reap_groups(pipeline, keys=keys)

    assert (young, old) == ([], ["short"])
    assert keys_of(client, keys, group="short") == []
    (left,) = (await overview(pipeline, keys=keys)).groups
    assert (left.group, left.kind, left.is_behind) == ("long", "durable", True)
    assert (left.idle_ms or 0) >= 1000 * HOUR_MS


async def test_one_look_tells_the_kind_of_a_group_and_when_it_last_lived(pipeline: Pipeline, keys: Keys) -> None:
    await groups.declare(pipeline, keys=keys, group="g", kind="ephemeral", ttl_ms=HOUR_MS)

    (state,) = (await overview(pipeline, keys=keys)).groups

    assert (state.kind, state.is_behind) == ("ephemeral", False)
    assert state.idle_ms is not None
    assert state.idle_ms < 60_000


async def test_what_a_group_has_parked_is_counted_and_goes_with_it(
    stream: EventStream, pipeline: Pipeline, keys: Keys, client: Any, removal: GroupRemoval
) -> None:
    reader = await reader_of(pipeline, keys)
    await stream.append(an_event(version=2))
    (lease,) = await reader.read(budget=100, block_ms=1000)
    await settle_as(reader, pipeline, keys, (lease, Park(0)))

    (state,) = (await overview(pipeline, keys=keys)).groups
    found, removed = removal.count("g", least_idle_ms=0), removal.remove("g", least_idle_ms=0)

    assert (state.parked, found.parked, removed.status) == (1, 1, "removed")
    assert keys_of(client, keys, group="g") == []
