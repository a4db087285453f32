"""What a processor writes through `delivery.once` is made with the ack of its delivery: once, or not at all."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from infra.running.embedded import EmbeddedServer
from infra.settings import LogSettings
from infra.streams import leases
from infra.streams.connection import open_pipeline
from infra.streams.keys import Keys
from infra.streams.once import LARGEST_COUNT, OnceReader, OnceWrite
from infra.streams.pipelining import Pipeline
from infra.streams.reading import Lease
from infra.streams.settle import Ack, AckOnce, GiveUp, RetryLater, Settlement
from infra.streams.stream import EventStream
from tests.events import an_event
from tests.infra.streams.deliveries import GIVE_UP, pending, read_all, read_one, reader_of, settle_as
from tests.infra.streams.raw import open_raw
from tests.processors.waiting import letters

OTHERWISE = GiveUp(processor="p", reason="", error="", traceback="", attempts=2, dead_at_ms=1_700_000_000_000)
COUNTED = OnceWrite("counts", "pushes", "octo/hello", "2")
ALL_KINDS = (COUNTED, OnceWrite("values", "head", "octo/hello", "main"), OnceWrite("members", "repositories", "octo/hello", ""))


@pytest.fixture
def once(log: LogSettings, home: Path) -> Iterator[OnceReader]:
    opened = OnceReader.open(log, home=home, group="g")
    yield opened
    opened.close()


def acked_with(lease: Lease, *writes: OnceWrite) -> tuple[Lease, AckOnce]:
    return lease, AckOnce(lease.fields[b"id"].decode(), writes, OTHERWISE)


async def test_writes_are_made_with_the_ack(stream: EventStream, pipeline: Pipeline, keys: Keys, once: OnceReader) -> None:
    reader = await reader_of(pipeline, keys)
    await stream.append(an_event())
    lease = await read_one(reader)

    assert await settle_as(reader, pipeline, keys, acked_with(lease, *ALL_KINDS)) == []

    assert await pending(pipeline, lease) == 0
    assert once.names() == [("counts", "pushes"), ("members", "repositories"), ("values", "head")]
    assert (once.counts("pushes"), once.values("head")) == ({"octo/hello": 2}, {"octo/hello": "main"})
    assert once.members("repositories") == {"octo/hello"}


@pytest.mark.fault("I4")
async def test_a_worker_that_lost_its_delivery_writes_nothing(
    stream: EventStream, pipeline: Pipeline, keys: Keys, once: OnceReader
) -> None:
    slow, quick = await reader_of(pipeline, keys), await reader_of(pipeline, keys, consumer="c2")
    await stream.append(an_event())
    lease = await read_one(slow)
    taken = await leases.claim_idle(pipeline, keys=keys, reader=quick, lease_ms=0)
    assert taken is not None

    assert await settle_as(slow, pipeline, keys, acked_with(lease, *ALL_KINDS)) == [lease]
    assert once.names() == []

    assert await settle_as(quick, pipeline, keys, acked_with(taken, *ALL_KINDS)) == []
    assert once.counts("pushes") == {"octo/hello": 2}


async def test_an_ack_that_is_sent_again_writes_once(stream: EventStream, pipeline: Pipeline, keys: Keys, once: OnceReader) -> None:
    reader = await reader_of(pipeline, keys)
    await stream.append(an_event())
    decision = acked_with(await read_one(reader), COUNTED)

    await settle_as(reader, pipeline, keys, decision, decision)
    await settle_as(reader, pipeline, keys, decision)  # the first reply never arrived

    assert once.counts("pushes") == {"octo/hello": 2}


async def test_a_retried_event_writes_when_it_succeeds(
    stream: EventStream, pipeline: Pipeline, keys: Keys, once: OnceReader, client: Any
) -> None:
    reader = await reader_of(pipeline, keys)
    await stream.append(an_event())
    await settle_as(reader, pipeline, keys, (await read_one(reader), RetryLater(0, 1)))
    again = await read_one(reader)

    await settle_as(reader, pipeline, keys, acked_with(again, COUNTED))

    assert once.counts("pushes") == {"octo/hello": 2}
    assert client.xlen(again.stream) == 0


async def test_each_delivery_of_a_call_writes_its_own(stream: EventStream, pipeline: Pipeline, keys: Keys, once: OnceReader) -> None:
    reader = await reader_of(pipeline, keys)
    for _ in range(5):
        await stream.append(an_event(key="one shard"))
    taken = await read_all(reader)

    others: list[Settlement] = [Ack(), GIVE_UP, RetryLater(0, 1)]
    counted = (acked_with(taken[0], COUNTED), acked_with(taken[4], *ALL_KINDS))
    lost = await settle_as(reader, pipeline, keys, counted[0], *zip(taken[1:4], others, strict=True), counted[1])

    assert lost == []
    assert once.counts("pushes") == {"octo/hello": 4}
    assert await pending(pipeline, taken[0]) == 0


@pytest.mark.fault("D11")
@pytest.mark.parametrize("write", ALL_KINDS, ids=lambda write: write.kind)
async def test_a_write_that_cannot_be_made_costs_its_own_event_only(
    stream: EventStream, pipeline: Pipeline, keys: Keys, once: OnceReader, client: Any, log: LogSettings, home: Path, write: OnceWrite
) -> None:
    reader = await reader_of(pipeline, keys)
    for _ in range(3):
        await stream.append(an_event(key="one shard"))
    first, bad, last = await read_all(reader)
    at = keys.once_key(bad.shard, "g", kind=write.kind, name="spoilt")
    client.set(at, "a string")
    fine = OnceWrite("counts", "fine", "", "1")

    lost = await settle_as(
        reader, pipeline, keys, acked_with(first, fine), acked_with(bad, fine, write._replace(name="spoilt")), acked_with(last, fine)
    )

    assert lost == []
    assert once.counts("fine") == {"": 2}
    (letter,) = letters(log, home)
    assert (letter.event_id.encode(), letter.processor, letter.attempts) == (bad.fields[b"id"], "p", 2)
    assert f"delivery.once cannot be stored: {at} is a string" in letter.reason
    assert await pending(pipeline, bad) == 0


@pytest.mark.parametrize("by", [str(LARGEST_COUNT), "1"])
async def test_a_count_that_would_not_be_exact_any_more_is_refused(
    stream: EventStream, pipeline: Pipeline, keys: Keys, once: OnceReader, log: LogSettings, home: Path, by: str
) -> None:
    reader = await reader_of(pipeline, keys)
    for _ in range(2):
        await stream.append(an_event(key="one shard"))
    first, second = await read_all(reader)
    largest = COUNTED._replace(value=str(LARGEST_COUNT))

    await settle_as(reader, pipeline, keys, acked_with(first, largest), acked_with(second, COUNTED._replace(value=by)))

    assert once.counts("pushes") == {"octo/hello": LARGEST_COUNT}
    assert ["the count pushes cannot go from" in letter.reason for letter in letters(log, home)] == [True]


async def test_a_late_event_does_not_undo_what_a_newer_one_has_set(
    stream: EventStream, pipeline: Pipeline, keys: Keys, once: OnceReader
) -> None:
    reader = await reader_of(pipeline, keys)
    for _ in range(2):
        await stream.append(an_event(key="one shard"))
    older, newer = sorted(await read_all(reader), key=lambda lease: lease.fields[b"id"])

    for lease, value in ((newer, "newer"), (older, "older")):
        await settle_as(reader, pipeline, keys, acked_with(lease, OnceWrite("values", "head", "", value)))

    assert once.values("head") == {"": "newer"}


async def test_a_reader_puts_the_shards_together(stream: EventStream, pipeline: Pipeline, keys: Keys, once: OnceReader) -> None:
    reader = await reader_of(pipeline, keys)
    for number in range(20):
        await stream.append(an_event(key=f"key {number}"))
    taken = await read_all(reader)
    assert len({lease.shard for lease in taken}) == keys.shards > 1
    newest = max(taken, key=lambda lease: lease.fields[b"id"])

    for number, lease in enumerate(taken):
        value, member = OnceWrite("values", "last", "", f"{number}"), OnceWrite("members", "seen", f"{number % 7}", "")
        await settle_as(reader, pipeline, keys, acked_with(lease, COUNTED, value, member))

    assert once.counts("pushes") == {"octo/hello": 40}
    assert once.values("last") == {"": f"{taken.index(newest)}"}
    assert once.members("seen") == {f"{number}" for number in range(7)}


@pytest.mark.fault("B8")
async def test_writes_are_made_when_the_servers_memory_is_full(own_server: EmbeddedServer, own_log: LogSettings, home: Path) -> None:
    stream, pipeline, client = EventStream.open(own_log, home=home), open_pipeline(own_log, home=home), open_raw(own_log, home=home)
    keys, once = Keys(own_log.prefix, 1), OnceReader.open(own_log, home=home, group="g")
    reader = await reader_of(pipeline, keys)
    await stream.append(an_event())
    lease = await read_one(reader)
    client.config_set("maxmemory", 1)

    lost = await settle_as(reader, pipeline, keys, acked_with(lease, *ALL_KINDS))

    assert (lost, once.counts("pushes")) == ([], {"octo/hello": 2})
    client.close()
    once.close()
    await stream.close()
    await pipeline.close()
