"""What was spilled comes back from the archive: each event once, in order, and what is owed shrinks by it in the same step."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from analytics.giving_back import Archived, Erased, portions, steps
from infra.settings import LogSettings
from infra.streams import janitor
from infra.streams.entries import LOG_FIELDS, as_fields
from infra.streams.erasing import Erasing, Numbers
from infra.streams.keys import Keys
from infra.streams.overview import overview
from infra.streams.owed import Given, Owed, OwedItem
from infra.streams.pipelining import Pipeline
from infra.streams.positions import Position
from infra.streams.ranges import ArchiveLog
from infra.streams.reading import GroupReader, Lease
from infra.streams.replay import Limits
from infra.streams.settle import Ack
from infra.streams.spill import spill
from infra.streams.stream import EventStream
from processors.retry import attempt_number
from tests.contracts.test_spill import STREAM, archived, take
from tests.infra.streams.deliveries import append_ten, read_all, reader_of, settle_as

PLENTY = Limits(entries=1000)


@pytest.fixture
def log(log: LogSettings) -> LogSettings:
    return log.model_copy(update={"shards": 1})


@pytest.fixture
def owed(log: LogSettings, home: Path) -> Iterator[Owed]:
    opened = Owed.open(log, home=home)
    yield opened
    opened.close()


@pytest.fixture
def erasing(log: LogSettings, home: Path) -> Iterator[Erasing]:
    opened = Erasing.open(log, home=home)
    yield opened
    opened.close()


def table_of(client: Any, keys: Keys) -> list[Archived]:
    """What the archive has of the stream: this suite is about the log, so its rows stand in a list."""
    found = []
    for entry_id, flat in raw_entries(client, keys.events(0, "default")):
        fields = as_fields(flat)
        number = int(fields.get(b"sequence", b"0"))
        kept = [part for name, value in fields.items() if name.decode() not in LOG_FIELDS for part in (name, value)]
        found.append(Archived("default", entry_id, fields.get(b"incarnation", b"").decode(), number, kept))
    return found


def raw_entries(client: Any, stream: str) -> list[tuple[str, list[bytes]]]:
    return [(entry_id.decode(), [part for pair in fields.items() for part in pair]) for entry_id, fields in client.xrange(stream)]


def give_back(
    owed: Owed,
    table: list[Archived],
    *,
    room: int = 1000,
    limits: Limits = PLENTY,
    items: list[OwedItem] | None = None,
    erased: Erased = dict,
) -> Given:
    chosen = portions(owed.items("g", shard=0) if items is None else items, room=room)
    return owed.give_back("g", shard=0, steps=list(steps(chosen, table, erased=erased)), limits=limits)


async def owed_count(pipeline: Pipeline, keys: Keys) -> int:
    (state,) = [one for one in (await overview(pipeline, keys=keys)).groups if one.group == "g"]
    return state.owed


def numbers(leases: list[Lease], table: list[Archived]) -> list[int]:
    """Which of the archived entries the deliveries are."""
    by_id = {dict(zip(row.fields[::2], row.fields[1::2], strict=True))[b"id"]: row.number for row in table}
    return [by_id[lease.fields[b"id"]] for lease in leases]


@pytest.mark.parametrize(("taken", "settled", "mark"), [(0, 0, 10), (4, 0, 6), (4, 2, 10), (8, 3, 6), (10, 0, 10)])
@pytest.mark.parametrize("room", [1, 3, 1000])
async def test_exactly_what_was_spilled_comes_back_in_order(
    stream: EventStream, pipeline: Pipeline, keys: Keys, client: Any, archive_log: ArchiveLog, owed: Owed,
    taken: int, settled: int, mark: int, room: int,
) -> None:  # fmt: skip
    reader = await reader_of(pipeline, keys)
    ids = await append_ten(stream)
    table = table_of(client, keys)
    leases = await take(pipeline, keys, number=taken) if taken else []
    await settle_as(reader, pipeline, keys, *((lease, Ack()) for lease in leases[:settled]))
    archived(archive_log, ids, up_to=mark)
    await spill(pipeline, keys=keys, shard=0, name="default")
    assert await janitor.trim(pipeline, keys=keys) == mark

    left = [mark - settled]
    while owed.creditors():
        give_back(owed, table, room=room)
        left.append(await owed_count(pipeline, keys))

    assert left == list(range(mark - settled, -1, -room)) if room == 1 else left[-1] == 0
    given = [lease for lease in await read_all(reader) if reader.kind_of(lease.stream) == "replay"]
    assert numbers(given, table) == list(range(settled + 1, mark + 1))
    assert not any(b"replay" in lease.fields for lease in given)
    assert client.exists(keys.owed(0, "g")) == 0


async def spilled_all(
    reader: GroupReader, stream: EventStream, pipeline: Pipeline, keys: Keys, client: Any, archive_log: ArchiveLog
) -> list[Archived]:
    """Ten events that group g is owed; returns what the archive has of them."""
    assert reader.group == "g"
    ids = await append_ten(stream)
    table = table_of(client, keys)
    archived(archive_log, ids, up_to=10)
    await spill(pipeline, keys=keys, shard=0, name="default")
    return table


@pytest.mark.fault("REPLAY")
async def test_whoever_repeats_a_call_gives_nothing_twice(
    stream: EventStream, pipeline: Pipeline, keys: Keys, client: Any, archive_log: ArchiveLog, owed: Owed
) -> None:
    reader = await reader_of(pipeline, keys)
    table = await spilled_all(reader, stream, pipeline, keys, client, archive_log)
    known = owed.items("g", shard=0)

    first = give_back(owed, table, items=known, room=4)
    again = give_back(owed, table, items=known, room=4)
    rest = give_back(owed, table)

    assert (first.status, first.appended) == ("handed", 4)
    assert (again.status, again.appended) == ("moved", 0)
    assert (rest.status, rest.appended) == ("handed", 6)
    assert numbers(await read_all(reader), table) == list(range(1, 11))


async def test_no_more_than_the_limit_wait_for_the_group(
    stream: EventStream, pipeline: Pipeline, keys: Keys, client: Any, archive_log: ArchiveLog, owed: Owed
) -> None:
    reader = await reader_of(pipeline, keys)
    table = await spilled_all(reader, stream, pipeline, keys, client, archive_log)

    first = give_back(owed, table, limits=Limits(entries=4))
    second = give_back(owed, table, limits=Limits(entries=4))
    await settle_as(reader, pipeline, keys, *((lease, Ack()) for lease in await read_all(reader)))
    third = give_back(owed, table, limits=Limits(entries=4))

    assert [(given.status, given.appended) for given in (first, second, third)] == [("full", 4), ("full", 0), ("full", 4)]
    assert await owed_count(pipeline, keys) == 2
    assert owed.waiting("g", shard=0) == 4


async def test_an_entry_in_work_goes_on_with_the_attempt_it_was_in(
    stream: EventStream, pipeline: Pipeline, keys: Keys, client: Any, archive_log: ArchiveLog, owed: Owed
) -> None:
    reader = await reader_of(pipeline, keys)
    ids = await append_ten(stream)
    table = table_of(client, keys)
    leases = await take(pipeline, keys, number=3)
    counts = (1, 2, 4)
    for lease, count in zip(leases, counts, strict=True):
        await pipeline.call("XCLAIM", lease.stream, "g", "c1", 0, lease.entry_id, "RETRYCOUNT", count, "JUSTID")
    archived(archive_log, ids, up_to=10)
    await spill(pipeline, keys=keys, shard=0, name="default")

    give_back(owed, table, room=3)

    found = await read_all(reader)
    attempts = [attempt_number(int(lease.fields.get(b"retry_count", b"0")), lease.delivery_count) for lease in found]
    assert attempts == [attempt_number(0, count) for count in counts]


async def test_numbers_without_a_row_are_lost_to_the_group_and_named(
    stream: EventStream, pipeline: Pipeline, keys: Keys, client: Any, archive_log: ArchiveLog, owed: Owed
) -> None:
    reader = await reader_of(pipeline, keys)
    table = await spilled_all(reader, stream, pipeline, keys, client, archive_log)
    kept = [row for row in table if row.number not in (1, 5, 6, 10)]

    given = give_back(owed, kept)

    assert given.appended == 6
    assert numbers(await read_all(reader), table) == [2, 3, 4, 7, 8, 9]
    assert await owed_count(pipeline, keys) == 0
    assert client.hget(keys.ledger(0), "lost:g") == b"4"
    named = sorted(name.decode().rpartition(":")[2] for name in client.hkeys(keys.lost(0, "g")))
    assert named == ["1-1", "10-10", "5-6"]
    assert client.exists(keys.owed(0, "g")) == 0


async def test_numbers_that_were_erased_are_taken_off_and_are_no_loss(
    stream: EventStream, pipeline: Pipeline, keys: Keys, client: Any, archive_log: ArchiveLog, owed: Owed, erasing: Erasing
) -> None:
    """Of the same numbers without a row as above: a part of a gap, one in work, and the end of what is owed."""
    reader = await reader_of(pipeline, keys)
    ids = await append_ten(stream)
    table = table_of(client, keys)
    await take(pipeline, keys, number=1)
    archived(archive_log, ids, up_to=10)
    await spill(pipeline, keys=keys, shard=0, name="default")
    kept = [row for row in table if row.number not in (1, 5, 6, 10)]
    erasing.note_numbers(Numbers("0:default", table[0].incarnation, *gone) for gone in ((1, 1), (6, 6), (9, 12)))

    given = give_back(owed, kept, erased=lambda: owed.erased(0))

    assert given.appended == 6
    assert numbers(await read_all(reader), table) == [2, 3, 4, 7, 8, 9]
    assert await owed_count(pipeline, keys) == 0
    assert client.hget(keys.ledger(0), "lost:g") == b"1"
    assert [name.decode().rpartition(":")[2] for name in client.hkeys(keys.lost(0, "g"))] == ["5-5"]
    assert client.exists(keys.owed(0, "g")) == 0


async def test_entries_that_nobody_accepted_come_back_too(
    stream: EventStream, pipeline: Pipeline, keys: Keys, client: Any, archive_log: ArchiveLog, owed: Owed
) -> None:
    reader = await reader_of(pipeline, keys)
    events = keys.events(0, "default")
    for _ in range(3):
        await append_ten(stream)
        client.xadd(events, {"foreign": "entry"})
    ids = [entry_id.decode() for entry_id, _ in client.xrange(events)]
    table = table_of(client, keys)
    incarnation = archive_log.ends()[0].incarnation
    archive_log.move({STREAM: Position(incarnation, ids[-1], 30)})
    await spill(pipeline, keys=keys, shard=0, name="default")

    while owed.creditors():
        give_back(owed, table, room=7)

    found = await read_all(reader)
    assert len(found) == 33
    assert [b"foreign" in lease.fields for lease in found] == [not row.number for row in table]
    assert await owed_count(pipeline, keys) == 0


async def test_what_is_spilled_meanwhile_is_not_lost(
    stream: EventStream, pipeline: Pipeline, keys: Keys, client: Any, archive_log: ArchiveLog, owed: Owed
) -> None:
    """A second spill lengthens the range under another name, while somebody is about to give the first one back."""
    reader = await reader_of(pipeline, keys)
    ids = await append_ten(stream)
    table = table_of(client, keys)
    archived(archive_log, ids, up_to=4)
    await spill(pipeline, keys=keys, shard=0, name="default")
    known = owed.items("g", shard=0)
    archived(archive_log, ids, up_to=10)
    await spill(pipeline, keys=keys, shard=0, name="default")

    late = give_back(owed, table, items=known)
    give_back(owed, table)

    assert (late.status, late.appended) == ("moved", 0)
    assert numbers(await read_all(reader), table) == list(range(1, 11))
    assert await owed_count(pipeline, keys) == 0
