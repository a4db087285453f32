"""Above its hard cap the log takes nothing more, and everything that empties it goes on; below it, it takes events again."""

from __future__ import annotations

from typing import Any

import pytest

from infra.settings import LogSettings
from infra.streams import janitor
from infra.streams.caps import mind_hard_cap, weigh
from infra.streams.delayed import promote_due
from infra.streams.keys import Keys
from infra.streams.pipelining import Pipeline
from infra.streams.ranges import ArchiveLog
from infra.streams.settle import Ack, RetryLater
from infra.streams.stream import EventStream
from schemas.errors import LogFull
from tests.events import an_event
from tests.infra.streams.deliveries import GIVE_UP, append_ten, make_due, read_all, reader_of, settle_as


@pytest.fixture
def log(log: LogSettings) -> LogSettings:
    return log.model_copy(update={"shards": 1})


@pytest.fixture
def full(log: LogSettings) -> LogSettings:
    """The same log, with caps that any server is above."""
    return log.model_copy(update={"soft_cap": "1KiB", "hard_cap": "2KiB"})


async def test_a_server_tells_what_it_weighs(stream: EventStream, pipeline: Pipeline, keys: Keys, log: LogSettings) -> None:
    await stream.append(an_event(payload=b"x" * 100_000))

    weight = await weigh(pipeline, keys=keys, shard=0, log=log, streams=keys.event_streams(0))

    assert weight.used_bytes > 100_000
    assert weight.limit_bytes > weight.used_bytes
    assert (weight.is_heavy, weight.is_full, weight.refuses) == (False, False, False)
    assert [weighs > 100_000 for weighs in weight.streams] == [False, True, False, False]


@pytest.mark.fault("B8")
async def test_a_log_above_its_hard_cap_refuses_events_and_stores_and_counts_nothing_of_them(
    stream: EventStream, pipeline: Pipeline, keys: Keys, client: Any, log: LogSettings, full: LogSettings
) -> None:
    await stream.append(an_event())
    assert await mind_hard_cap(pipeline, keys=keys, log=full)
    ledger = client.hgetall(keys.ledger(0))

    with pytest.raises(LogFull, match="hard_cap"):
        await stream.append(an_event(delivery_id="d1"))

    assert (client.hgetall(keys.ledger(0)), client.xlen(keys.events(0, "default"))) == (ledger, 1)
    assert not await mind_hard_cap(pipeline, keys=keys, log=log)
    assert (await stream.append(an_event(delivery_id="d1"))).sequence == 2


@pytest.mark.fault("B8")
async def test_a_log_above_its_hard_cap_is_emptied_as_ever(
    stream: EventStream, pipeline: Pipeline, keys: Keys, client: Any, archive_log: ArchiveLog, full: LogSettings
) -> None:
    reader = await reader_of(pipeline, keys)
    await append_ten(stream)
    await mind_hard_cap(pipeline, keys=keys, log=full)

    first, second, *rest = await read_all(reader)
    decisions = [(first, RetryLater(3_600_000, 1)), (second, GIVE_UP), *((lease, Ack()) for lease in rest)]
    assert await settle_as(reader, pipeline, keys, *decisions) == []  # type: ignore[arg-type]
    make_due(client, keys.delayed(0))
    assert await promote_due(pipeline, keys=keys) == 1
    (again,) = await read_all(reader)
    assert await settle_as(reader, pipeline, keys, (again, Ack())) == []
    archive_log.move({end.stream: end.last for end in archive_log.ends()})

    assert await janitor.trim(pipeline, keys=keys) == 10


async def test_a_verdict_lapses_when_nobody_repeats_it(
    stream: EventStream, pipeline: Pipeline, keys: Keys, client: Any, full: LogSettings
) -> None:
    await mind_hard_cap(pipeline, keys=keys, log=full)
    noted = int(client.hget(keys.ledger(0), "full"))
    await mind_hard_cap(pipeline, keys=keys, log=full)  # too soon to be worth a write
    assert int(client.hget(keys.ledger(0), "full")) == noted

    client.hincrby(keys.ledger(0), "full", -11_000)  # as if that time had passed: the server's clock cannot be moved

    assert (await stream.append(an_event())).sequence == 1
