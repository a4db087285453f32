"""How far behind a group is, exactly, or not at all."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from infra.settings import LogSettings
from infra.streams.keys import Keys
from infra.streams.lag import oldest_undelivered_ms, read_lag
from infra.streams.pipelining import Pipeline
from infra.streams.ranges import ArchiveLog
from infra.streams.settle import Ack
from infra.streams.stream import EventStream
from tests.events import an_event
from tests.infra.streams.deliveries import read_one, reader_of, settle_as


async def test_lag_tells_what_was_not_handed_out_from_what_is_pending(stream: EventStream, pipeline: Pipeline, keys: Keys) -> None:
    reader = await reader_of(pipeline, keys)
    for _ in range(2):
        await stream.append(an_event(key="one shard"))
    settled, in_hand = await reader.read(budget=100, block_ms=1000)
    await settle_as(reader, pipeline, keys, (settled, Ack()))
    await stream.append(an_event(key="one shard"))

    lags = await read_lag(pipeline, keys=keys, group="g")

    (behind,) = [lag for lag in lags if lag.unsettled]
    assert (behind.undelivered, behind.pending, behind.unsettled) == (1, 1, 2)
    assert (behind.stream, behind.delivered_to) == (f"{in_hand.shard}:events:default", in_hand.entry_id)
    assert len(lags) == 6 * keys.shards


async def test_lag_stays_exact_when_the_log_is_trimmed(
    stream: EventStream, pipeline: Pipeline, keys: Keys, log: LogSettings, home: Path
) -> None:
    reader = await reader_of(pipeline, keys)
    for _ in range(20):
        await stream.append(an_event(key="one shard"))
    taken = await reader.read(budget=8 * len(reader.streams), block_ms=1000)
    await settle_as(reader, pipeline, keys, *((lease, Ack()) for lease in taken))
    archive_log = ArchiveLog.open(log, home=home)
    archive_log.move({end.stream: end.last for end in archive_log.ends()})

    removed = archive_log.trim()
    archive_log.close()

    (behind,) = [lag for lag in await read_lag(pipeline, keys=keys, group="g") if lag.unsettled]
    assert (len(taken), removed, behind.undelivered, behind.pending) == (8, 8, 12, 0)
    assert {lag.undelivered for lag in await read_lag(pipeline, keys=keys, group="archive")} == {0}


async def test_a_group_that_was_never_declared_has_no_lag(stream: EventStream, pipeline: Pipeline, keys: Keys) -> None:
    await stream.append(an_event())

    assert await read_lag(pipeline, keys=keys, group="nobody") == []


async def test_lag_that_the_server_cannot_tell_is_not_0(stream: EventStream, pipeline: Pipeline, keys: Keys, client: Any) -> None:
    reader = await reader_of(pipeline, keys)
    ids = [(await stream.append(an_event(key="one shard"))).entry_id for _ in range(3)]
    lease = (await reader.read(budget=100, block_ms=1000))[0]
    client.xgroup_setid(lease.stream, "g", ids[1])

    (unknown,) = [lag for lag in await read_lag(pipeline, keys=keys, group="g") if lag.undelivered is None]

    assert (unknown.delivered_to, unknown.unsettled) == (ids[1], None)


async def test_the_oldest_entry_that_nobody_was_handed_has_an_age(pipeline: Pipeline, keys: Keys, client: Any) -> None:
    reader = await reader_of(pipeline, keys)
    name = keys.events(0, "default")
    a_minute_ago = client.time()[0] * 1000 - 60_000
    client.xadd(name, {"handed": "out"}, id="1000-0")
    await read_one(reader)
    client.xadd(name, {"not": "yet"}, id=f"{a_minute_ago}-0")
    client.xadd(name, {"not": "yet"})

    (behind, *others) = sorted(await read_lag(pipeline, keys=keys, group="g"), key=lambda lag: lag.undelivered or 0, reverse=True)

    age_ms = await oldest_undelivered_ms(pipeline, keys=keys, lag=behind)
    assert age_ms is not None
    assert 60_000 <= age_ms < 120_000
    assert await oldest_undelivered_ms(pipeline, keys=keys, lag=others[0]) is None
