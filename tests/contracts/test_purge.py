"""A purge drops everything that waits for one group, is counted and recorded, and touches nobody else."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from infra.settings import LogSettings
from infra.streams import groups
from infra.streams.keys import Keys
from infra.streams.pipelining import Pipeline
from infra.streams.purging import Backlog, Purging
from infra.streams.ranges import ArchiveLog
from infra.streams.settle import Ack, RetryLater
from infra.streams.stream import EventStream
from tests.events import an_event
from tests.infra.streams.deliveries import GIVE_UP, append_ten, read_all, reader_of, settle_as

NOTHING = Backlog(pending=0, undelivered=0, waiting=0, parked=0, owed=0)


@pytest.fixture
def log(log: LogSettings) -> LogSettings:
    return log.model_copy(update={"shards": 2})


@pytest.fixture
def purging(log: LogSettings, home: Path) -> Iterator[Purging]:
    opened = Purging.open(log, home=home)
    yield opened
    opened.close()


async def fill(stream: EventStream, pipeline: Pipeline, keys: Keys, *, group: str = "g") -> list[Any]:
    """Of twenty events one is a dead letter, one waits, one was retried at once, seven are in work, and ten are new."""
    reader = await reader_of(pipeline, keys, group=group)
    await append_ten(stream)
    taken = await read_all(reader)
    decisions = [(taken[0], GIVE_UP), (taken[1], RetryLater(3_600_000, 1)), (taken[2], RetryLater(0, 1))]
    await settle_as(reader, pipeline, keys, *decisions)  # type: ignore[arg-type]
    await append_ten(stream)
    return taken


async def test_everything_that_waits_for_a_group_is_dropped_and_nothing_of_any_other(
    stream: EventStream, pipeline: Pipeline, keys: Keys, client: Any, archive_log: ArchiveLog, purging: Purging
) -> None:
    await groups.declare(pipeline, keys=keys, group="other")
    archive_log.ends()
    taken = await fill(stream, pipeline, keys)
    client.hset(keys.owed(0, "g"), "range|default|i|9-0", "0-0|1|9")
    client.hset(keys.ledger(0), "owed:g", 9)
    client.xadd(keys.parked(1, "g"), {"a": "b"})
    before = entries(client, keys)

    counted, purged = purging.count("g"), purging.purge("g", by="me@here")

    assert counted == purged == Backlog(pending=7, undelivered=11, waiting=1, parked=1, owed=9)
    assert purging.count("g") == NOTHING
    assert entries(client, keys) == before
    other = purging.count("other")
    assert other is not None
    assert (other.undelivered, other.pending) == (20, 0)
    assert {lag(client, keys, group) for group in ("archive", "other")} == {20}
    assert sum(client.xlen(keys.dead(shard)) for shard in keys.all_shards()) == 1
    assert len(await settle_as(await reader_of(pipeline, keys), pipeline, keys, (taken[5], Ack()))) == 1  # its lease is lost


async def test_a_purged_group_goes_on_with_what_arrives_from_then_on(
    stream: EventStream, pipeline: Pipeline, keys: Keys, purging: Purging
) -> None:
    await fill(stream, pipeline, keys)
    purging.purge("g", by="me@here")
    event = an_event()
    await stream.append(event)

    (lease,) = await read_all(await reader_of(pipeline, keys))

    assert lease.fields[b"id"].decode() == event.id


async def test_each_purge_leaves_one_record_of_who_and_how_much(
    stream: EventStream, pipeline: Pipeline, keys: Keys, purging: Purging
) -> None:
    await fill(stream, pipeline, keys)
    purging.purge("g", by="me@here")
    purging.purge("g", by="you@there")

    second, first = purging.history()

    assert (first.group, first.by, first.dropped) == ("g", "me@here", Backlog(pending=7, undelivered=11, waiting=1, parked=0, owed=0))
    assert (second.by, second.dropped) == ("you@there", NOTHING)
    assert first.at <= second.at


async def test_a_group_that_does_not_exist_is_neither_purged_nor_recorded(purging: Purging, client: Any, keys: Keys) -> None:
    assert purging.count("nobody") is purging.purge("nobody", by="me@here") is None
    assert purging.history() == []


@pytest.mark.fault("B8")
async def test_a_group_is_purged_when_the_servers_memory_is_full(
    own_stream: EventStream, own_pipeline: Pipeline, own_client: Any, own_log: LogSettings, home: Path
) -> None:
    keys = Keys(own_log.prefix, own_log.shards)
    await fill(own_stream, own_pipeline, keys)
    own_client.config_set("maxmemory", 1)
    purging = Purging.open(own_log, home=home)

    dropped = purging.purge("g", by="me@here")

    assert (dropped, purging.count("g")) == (Backlog(pending=7, undelivered=11, waiting=1, parked=0, owed=0), NOTHING)
    assert [one.by for one in purging.history()] == ["me@here"]
    purging.close()


def entries(client: Any, keys: Keys) -> int:
    return sum(client.xlen(stream) for shard in keys.all_shards() for stream in keys.event_streams(shard))


def lag(client: Any, keys: Keys, group: str) -> int:
    streams = [stream for shard in keys.all_shards() for stream in keys.event_streams(shard)]
    return sum(one["lag"] for stream in streams for one in client.xinfo_groups(stream) if one["name"] == group.encode())
