"""Above the soft cap, what is archived makes room although groups have not settled it: each is owed exactly that, and nothing else."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from infra.settings import LogSettings
from infra.streams import groups, janitor
from infra.streams.group_removal import GroupRemoval
from infra.streams.keys import Keys
from infra.streams.lag import read_lag
from infra.streams.overview import overview
from infra.streams.pipelining import Pipeline
from infra.streams.positions import Position, StreamName
from infra.streams.ranges import ArchiveLog
from infra.streams.reading import Lease
from infra.streams.settle import Ack
from infra.streams.spill import make_room, spill
from infra.streams.stream import EventStream
from schemas.errors import StreamUnavailable
from tests.events import an_event
from tests.infra.streams.deliveries import append_ten, read_all, reader_of, settle_as
from tests.infra.streams.raw import lives_of

STREAM = StreamName(0, "default")


@pytest.fixture
def log(log: LogSettings) -> LogSettings:
    return log.model_copy(update={"shards": 1})


@dataclass(frozen=True, slots=True)
class Owed:
    """What `{0}:owed:<group>` says, as the entry ids of these numbers."""

    ids: list[str]
    counted: int


def owed(client: Any, keys: Keys, *, ids: list[str], group: str = "g") -> Owed:
    """`ids` are all entry ids ever, the first of which has the number 1."""
    found: list[str] = []
    for field, value in client.hgetall(keys.owed(0, group)).items():
        kind, stream, _, end = field.decode().split("|")
        assert stream == "default"
        if kind == "id":
            number, _ = value.decode().split("|")
            assert ids[int(number) - 1] == end
            found.append(end)
        else:
            after, first, last = value.decode().split("|")
            of_numbers = ids[int(first) - 1 : int(last)]
            assert of_numbers == [one for one in ids if one in between(ids, after=after, to=end)]
            found += of_numbers
    return Owed(sorted(found, key=ids.index), int(client.hget(keys.ledger(0), f"owed:{group}") or 0))


def between(ids: list[str], *, after: str, to: str) -> list[str]:
    start = ids.index(after) + 1 if after in ids else 0
    return ids[start : ids.index(to) + 1]


def archived(archive_log: ArchiveLog, ids: list[str], *, up_to: int) -> None:
    """The archive has committed so many of the entries."""
    incarnation = archive_log.ends()[0].incarnation
    archive_log.move({STREAM: Position(incarnation, ids[up_to - 1], up_to)})


async def take(pipeline: Pipeline, keys: Keys, *, number: int, group: str = "g") -> list[Lease]:
    """Deliveries to one consumer: so many, and not settled."""
    reply = await pipeline.call("XREADGROUP", "GROUP", group, "c1", "COUNT", number, "STREAMS", keys.events(0, "default"), ">")
    return [Lease(0, keys.events(0, "default"), entry_id.decode(), 1, []) for _, entries in reply for entry_id, _ in entries]


@pytest.mark.parametrize(
    ("taken", "settled", "mark"), [(0, 0, 6), (4, 0, 6), (4, 2, 6), (8, 3, 6), (10, 0, 10), (3, 3, 10), (10, 10, 10), (5, 1, 1)]
)
async def test_a_group_is_owed_what_is_archived_and_not_settled_by_it(
    stream: EventStream, pipeline: Pipeline, keys: Keys, client: Any, archive_log: ArchiveLog, taken: int, settled: int, mark: int
) -> None:
    reader = await reader_of(pipeline, keys)
    ids = await append_ten(stream)
    leases = await take(pipeline, keys, number=taken) if taken else []
    await settle_as(reader, pipeline, keys, *((lease, Ack()) for lease in leases[:settled]))
    archived(archive_log, ids, up_to=mark)

    became = await spill(pipeline, keys=keys, shard=0, name="default")

    expected = ids[settled:mark]
    assert owed(client, keys, ids=ids) == Owed(expected, counted=len(expected)) == Owed(expected, counted=became)
    (state,) = [one for one in (await overview(pipeline, keys=keys)).groups if one.group == "g"]
    assert (state.owed, state.pending, state.undelivered) == (len(expected), max(0, taken - max(settled, mark)), 10 - max(taken, mark))
    assert await janitor.trim(pipeline, keys=keys) == mark
    assert [entry_id.decode() for entry_id, _ in client.xrange(keys.events(0, "default"))] == ids[mark:]


@pytest.mark.fault("D5")
async def test_a_worker_that_has_a_spilled_entry_in_hand_finds_its_lease_lost(
    stream: EventStream, pipeline: Pipeline, keys: Keys, archive_log: ArchiveLog
) -> None:
    reader = await reader_of(pipeline, keys)
    ids = await append_ten(stream)
    leases = await take(pipeline, keys, number=10)
    archived(archive_log, ids, up_to=4)

    await spill(pipeline, keys=keys, shard=0, name="default")

    lost = await settle_as(reader, pipeline, keys, *((lease, Ack()) for lease in leases))
    assert [lease.entry_id for lease in lost] == ids[:4]


async def test_a_second_spill_goes_on_where_the_first_one_ended(
    stream: EventStream, pipeline: Pipeline, keys: Keys, client: Any, archive_log: ArchiveLog
) -> None:
    await groups.declare(pipeline, keys=keys, group="g")
    ids = await append_ten(stream)
    for mark in (3, 3, 7):
        archived(archive_log, ids, up_to=mark)
        await spill(pipeline, keys=keys, shard=0, name="default")

    assert owed(client, keys, ids=ids) == Owed(ids[:7], counted=7)
    assert client.hlen(keys.owed(0, "g")) == 1  # one range, however often it grew
    lags = await read_lag(pipeline, keys=keys, group="g")
    assert [lag.undelivered for lag in lags if lag.stream == "0:events:default"] == [3]


async def test_a_group_that_is_hardly_behind_is_spared_and_the_others_go_no_further_than_it(
    stream: EventStream, pipeline: Pipeline, keys: Keys, client: Any, archive_log: ArchiveLog
) -> None:
    await groups.declare(pipeline, keys=keys, group="slow")
    quick = await reader_of(pipeline, keys, group="quick")
    ids = [entry for _ in range(3) for entry in await append_ten(stream)]
    leases = await take(pipeline, keys, number=30, group="quick")
    await settle_as(quick, pipeline, keys, *((lease, Ack()) for lease in leases if lease.entry_id != ids[27]))
    archived(archive_log, ids, up_to=30)

    await spill(pipeline, keys=keys, shard=0, name="default")
    trimmed = await janitor.trim(pipeline, keys=keys)

    assert owed(client, keys, ids=ids, group="slow") == Owed(ids[:27], counted=27)
    assert (owed(client, keys, ids=ids, group="quick").counted, trimmed) == (0, 27)
    assert await settle_as(quick, pipeline, keys, (leases[27], Ack())) == []


async def test_nothing_is_owed_before_anything_is_archived(
    stream: EventStream, pipeline: Pipeline, keys: Keys, archive_log: ArchiveLog
) -> None:
    await groups.declare(pipeline, keys=keys, group="g")
    await append_ten(stream)
    archive_log.ends()

    assert await spill(pipeline, keys=keys, shard=0, name="default") == 0


async def test_a_range_over_several_incarnations_is_owed_by_their_own_numbers(
    pipeline: Pipeline, keys: Keys, client: Any, archive_log: ArchiveLog
) -> None:
    archive_log.ends()
    await groups.declare(pipeline, keys=keys, group="g")
    ids = lives_of(client, keys, lives={"first1": 4, "second2": 3, "third3": 5})
    client.xadd(keys.events(0, "default"), {"incarnation": "third3", "sequence": 6}, id=f"{ids[-1][:-1]}1")  # within one millisecond
    archive_log.move({STREAM: Position("third3", ids[10], 4)})

    assert await spill(pipeline, keys=keys, shard=0, name="default") == 11

    assert {field.decode(): value.decode() for field, value in client.hgetall(keys.owed(0, "g")).items()} == {
        f"range|default|first1|{ids[3]}": "0-0|1|4",
        f"range|default|second2|{ids[6]}": f"{ids[3]}|1|3",
        f"range|default|third3|{ids[10]}": f"{ids[6]}|1|4",
    }


async def test_an_entry_in_work_that_was_trimmed_beneath_the_group_is_owed_too(
    stream: EventStream, pipeline: Pipeline, keys: Keys, client: Any, archive_log: ArchiveLog
) -> None:
    ids = await append_ten(stream)
    await groups.declare(pipeline, keys=keys, group="g")
    await take(pipeline, keys, number=3)
    archived(archive_log, ids, up_to=3)
    client.xdel(keys.events(0, "default"), ids[1])

    assert await spill(pipeline, keys=keys, shard=0, name="default") == 3
    assert client.hget(keys.owed(0, "g"), f"id|default||{ids[1]}") == b"|1"


async def test_what_is_no_hash_stops_a_spill_before_anything_is_taken(
    stream: EventStream, pipeline: Pipeline, keys: Keys, client: Any, archive_log: ArchiveLog
) -> None:
    ids = await append_ten(stream)
    await groups.declare(pipeline, keys=keys, group="g")
    await take(pipeline, keys, number=3)
    archived(archive_log, ids, up_to=10)
    client.set(keys.owed(0, "g"), "a string")

    with pytest.raises(StreamUnavailable, match="WRONGTYPE"):
        await spill(pipeline, keys=keys, shard=0, name="default")

    (group,) = [one for one in client.xinfo_groups(keys.events(0, "default")) if one["name"] == b"g"]
    assert (group["pending"], group["last-delivered-id"].decode()) == (3, ids[2])


async def test_removing_a_group_removes_what_it_is_owed(
    stream: EventStream, pipeline: Pipeline, keys: Keys, client: Any, archive_log: ArchiveLog, log: LogSettings, home: Path
) -> None:
    ids = await append_ten(stream)
    await groups.declare(pipeline, keys=keys, group="g")
    archived(archive_log, ids, up_to=10)
    await spill(pipeline, keys=keys, shard=0, name="default")
    removal = GroupRemoval.open(log, home=home)

    assert (removal.count("g", least_idle_ms=0).owed, removal.remove("g", least_idle_ms=0).owed) == (10, 10)

    removal.close()
    assert (client.exists(keys.owed(0, "g")), client.hget(keys.ledger(0), "owed:g")) == (0, None)


@pytest.mark.fault("B8")
async def test_room_is_made_on_a_server_whose_memory_is_full(
    own_stream: EventStream, own_pipeline: Pipeline, own_client: Any, own_log: LogSettings, own_archive_log: ArchiveLog
) -> None:
    keys, weighty = Keys(own_log.prefix, 1), own_log.model_copy(update={"soft_cap": "1KiB", "hard_cap": "2KiB"})
    await groups.declare(own_pipeline, keys=keys, group="g")
    ids = [(await own_stream.append(an_event(payload=b"x" * 10_000))).entry_id for _ in range(20)]
    await take(own_pipeline, keys, number=5)
    archived(own_archive_log, ids, up_to=15)
    await janitor.trim(own_pipeline, keys=keys)
    own_client.config_set("maxmemory", 1)

    (done,) = await make_room(own_pipeline, keys=keys, log=weighty)

    assert (done.stream, done.owed, done.trimmed) == ("0:default", 15, 15)
    assert owed(own_client, keys, ids=ids) == Owed(ids[:15], counted=15)
    assert await make_room(own_pipeline, keys=keys, log=own_log.model_copy(update={"soft_cap": "1GiB", "hard_cap": "2GiB"})) == []


async def test_a_log_below_its_soft_cap_is_left_alone(
    stream: EventStream, pipeline: Pipeline, keys: Keys, archive_log: ArchiveLog, log: LogSettings
) -> None:
    ids = await append_ten(stream)
    await groups.declare(pipeline, keys=keys, group="g")
    archived(archive_log, ids, up_to=10)

    assert await make_room(pipeline, keys=keys, log=log) == []
    assert len(await read_all(await reader_of(pipeline, keys))) == 10
