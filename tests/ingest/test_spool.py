"""A spool gives back what it was given, in order, once the log has it deletes it, and never holds more than it may."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from infra.clock import Clock
from infra.spools import read_spools
from infra.streams.packed import unpack
from ingest.backlog import Batch
from ingest.spool import Spool
from schemas.errors import SpoolFull, SpoolUnavailable
from schemas.event import StreamEvent
from tests.events import an_event
from tests.ingest.spooling import segment_files, spooled_events

MIB = 1024 * 1024


@pytest.fixture
async def spool(home: Path) -> AsyncIterator[Spool]:
    opened = Spool.hold(home, max_bytes=MIB, clock=Clock())
    opened.start()
    yield opened
    await opened.close()


def read(spool: Spool, *, most_records: int = 100) -> Batch | None:
    return spool.backlog.read(upto=spool.end, most_records=most_records, most_bytes=MIB)


def events_of(batch: Batch | None) -> list[StreamEvent]:
    return [] if batch is None else [event for record in batch.records for event in unpack(record.payload)]


async def test_events_come_back_in_order_and_parts_stay_together(spool: Spool) -> None:
    first, parts = an_event(), [an_event(), an_event()]
    await spool.keep([first], shard=0)
    await spool.keep(parts, shard=1)

    batch = read(spool)

    assert batch is not None
    assert [unpack(record.payload) for record in batch.records] == [[first], parts]
    assert [spool.has(shard) for shard in (0, 1, 2)] == [True, True, False]


async def test_what_the_log_has_is_passed_over_and_deleted_in_the_end(spool: Spool, home: Path) -> None:
    kept = [an_event() for _ in range(4)]
    for event in kept:
        await spool.keep([event], shard=0)

    first = read(spool, most_records=3)
    assert first is not None
    spool.backlog.settle(first)
    spool.settled(first, shards=[0, 0, 0])
    second = read(spool)
    assert second is not None
    assert (events_of(first), events_of(second), spool.has(0), read_spools(home)[0].events) == (kept[:3], kept[3:], True, 1)
    spool.backlog.settle(second)
    spool.settled(second, shards=[0])

    assert await spool.rest(upto=spool.end)
    assert read(spool) is None
    assert (spool.is_empty, spool.size_bytes, segment_files(home)) == (True, 0, [])


async def test_a_spool_is_not_empty_while_something_is_being_written(spool: Spool) -> None:
    upto = spool.end
    keeping = asyncio.ensure_future(spool.keep([an_event()], shard=0))
    await asyncio.sleep(0)

    assert not await spool.rest(upto=upto)
    await keeping
    assert not await spool.rest(upto=upto)
    assert not spool.is_empty


async def test_above_its_bound_it_takes_nothing_more_until_there_is_room(spool: Spool) -> None:
    large = an_event(payload=b"x" * 400_000)
    for _ in range(2):
        await spool.keep([large], shard=0)

    with pytest.raises(SpoolFull) as refused:
        await spool.keep([large], shard=0)

    batch = read(spool, most_records=1)
    assert batch is not None
    spool.backlog.settle(batch)
    spool.settled(batch, shards=[0])
    await spool.keep([large], shard=0)
    assert (refused.value.retry_after_s, spool.size_bytes < MIB) == (30, True)


async def test_who_comes_next_finds_what_was_left_and_goes_on_where_it_stood(home: Path) -> None:
    first = Spool.hold(home, max_bytes=MIB, clock=Clock())
    first.start()
    kept = [an_event() for _ in range(3)]
    for event in kept:
        await first.keep([event], shard=0)
    batch = read(first, most_records=1)
    assert batch is not None
    first.backlog.settle(batch)
    await first.close()
    # A process that lives holds its folder: another one takes the next.
    other = Spool.hold(home, max_bytes=MIB, clock=Clock())
    assert (other.folder.receiver, other.is_empty) == ("receiver-1", True)

    second = Spool(first.folder, max_bytes=MIB, clock=Clock())

    assert (second.is_empty, second.has(3)) == (False, True)
    assert events_of(read(second)) == kept[1:]
    assert spooled_events(home) == kept


async def test_a_record_that_is_damaged_does_not_keep_its_shard_for_ever(spool: Spool, home: Path) -> None:
    await spool.keep([an_event()], shard=2)
    (path,) = segment_files(home)
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)

    batch = read(spool)
    assert batch is not None
    assert (len(batch.records), [damage.is_torn for damage in batch.damages]) == (0, [False])
    spool.backlog.settle(batch)
    spool.settled(batch, shards=[])
    assert await spool.rest(upto=spool.end)

    assert spool.is_empty


async def test_a_spool_that_ran_out_of_memory_has_no_room_until_it_has_written_again(spool: Spool, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise MemoryError

    monkeypatch.setattr("ingest.group_commit.write_all", fail)
    with pytest.raises(SpoolUnavailable):
        await asyncio.wait_for(spool.keep([an_event()], shard=0), 5)
    had_room = spool.has_room
    monkeypatch.undo()
    await asyncio.wait_for(spool.try_disk(), 5)

    assert (had_room, spool.has_room) == (False, True)


async def test_a_spool_that_nobody_writes_to_any_more_has_no_room_and_says_so(spool: Spool) -> None:
    await spool.close()

    for _ in range(2):
        with pytest.raises(SpoolUnavailable):
            await asyncio.wait_for(spool.keep([an_event()], shard=0), 5)

    await asyncio.wait_for(spool.try_disk(), 5)
    assert (spool.has_room, spool.is_empty, spool.size_bytes) == (False, True, 0)
