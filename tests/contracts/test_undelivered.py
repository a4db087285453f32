"""What somebody removes from a stream before a group was handed it is counted for that group, exactly and once; what we move is not."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from infra.settings import LogSettings
from infra.streams import groups, janitor
from infra.streams.keys import Keys
from infra.streams.losses import read_losses
from infra.streams.overview import overview
from infra.streams.pipelining import Pipeline
from infra.streams.positions import Position, StreamName
from infra.streams.purging import Purging
from infra.streams.ranges import ArchiveLog
from infra.streams.reading import Lease
from infra.streams.settle import Ack
from infra.streams.spill import spill
from infra.streams.stream import EventStream
from schemas.outcome import Ran
from tests.events import an_event
from tests.infra.streams.deliveries import append_ten, read_all, reader_of, settle_as
from tests.infra.streams.raw import lives_of

DEFAULT = StreamName(0, "default")


@pytest.fixture
def log(log: LogSettings) -> LogSettings:
    return log.model_copy(update={"shards": 1})


async def a_group_after_ten(stream: EventStream, pipeline: Pipeline, keys: Keys) -> list[str]:
    """Group g has settled ten events, which was noted, and ten more wait for it; returns the entry ids of these."""
    reader = await reader_of(pipeline, keys)
    await append_ten(stream)
    await settle_as(reader, pipeline, keys, *((lease, Ack()) for lease in await read_all(reader)))
    ids = await append_ten(stream)
    await janitor.trim(pipeline, keys=keys)
    return ids


async def counted(pipeline: Pipeline, keys: Keys, *, group: str = "g") -> int:
    """What the group has lost after the housekeeper's next round."""
    await janitor.trim(pipeline, keys=keys)
    (state,) = [one for one in (await overview(pipeline, keys=keys)).groups if one.group == group]
    return state.lost


def ranges(log: LogSettings, home: Path, *, group: str = "g") -> list[tuple[int | None, int | None]]:
    return [(loss.first_number, loss.last_number) for loss in read_losses(log, home=home, group=group)]


@pytest.mark.fault("D12")
async def test_what_was_trimmed_before_a_group_was_handed_it_is_counted_exactly_and_once(
    stream: EventStream, pipeline: Pipeline, keys: Keys, client: Any, log: LogSettings, home: Path
) -> None:
    await a_group_after_ten(stream, pipeline, keys)
    client.xtrim(keys.events(0, "default"), maxlen=3, approximate=False)

    assert [await counted(pipeline, keys) for _ in range(2)] == [7, 7]
    assert len(await read_all(await reader_of(pipeline, keys))) == 3
    assert await counted(pipeline, keys) == 7
    assert ranges(log, home) == [(11, 17)]


async def test_a_group_that_went_on_before_anybody_looked_has_lost_what_it_was_not_handed(
    stream: EventStream, pipeline: Pipeline, keys: Keys, client: Any, archive_log: ArchiveLog, log: LogSettings, home: Path
) -> None:
    ids = await a_group_after_ten(stream, pipeline, keys)
    archive_log.move({end.stream: end.last for end in archive_log.ends()})
    client.xdel(keys.events(0, "default"), ids[2], ids[3], ids[6])
    reader = await reader_of(pipeline, keys)
    taken = await read_all(reader)
    await settle_as(reader, pipeline, keys, *((lease, Ack()) for lease in taken))

    assert (len(taken), await counted(pipeline, keys), await counted(pipeline, keys)) == (7, 3, 3)
    assert ranges(log, home) == [(13, 14), (17, 17)]


async def test_what_was_deleted_in_the_middle_is_not_counted_again_when_the_rest_is_trimmed(
    stream: EventStream, pipeline: Pipeline, keys: Keys, client: Any, log: LogSettings, home: Path
) -> None:
    ids = await a_group_after_ten(stream, pipeline, keys)
    client.xdel(keys.events(0, "default"), *ids[4:6])
    assert await counted(pipeline, keys) == 2
    client.xtrim(keys.events(0, "default"), maxlen=1, approximate=False)

    assert await counted(pipeline, keys) == 9
    assert ranges(log, home) == [(11, 14), (15, 16), (17, 19)]


@pytest.mark.parametrize("appended_before_the_look", [0, 2])
async def test_a_stream_that_was_deleted_is_lost_for_a_group_as_far_as_it_was_not_handed_it(
    stream: EventStream, pipeline: Pipeline, keys: Keys, client: Any, log: LogSettings, home: Path, appended_before_the_look: int
) -> None:
    await a_group_after_ten(stream, pipeline, keys)
    client.delete(keys.events(0, "default"))
    for _ in range(appended_before_the_look):
        await stream.append(an_event())

    assert await counted(pipeline, keys) == 10
    reader = await reader_of(pipeline, keys)
    await stream.append(an_event())
    assert len(await read_all(reader)) == appended_before_the_look + 1
    assert await counted(pipeline, keys) == 10
    assert ranges(log, home) == [(11, 20)]


async def test_a_stream_of_which_nothing_was_ever_trimmed_and_which_begins_anew_has_lost_what_it_had(
    stream: EventStream, pipeline: Pipeline, keys: Keys, client: Any
) -> None:
    await groups.declare(pipeline, keys=keys, group="g")
    await append_ten(stream)
    assert await counted(pipeline, keys) == 0
    client.delete(keys.events(0, "default"))
    await groups.declare(pipeline, keys=keys, group="g")
    await stream.append(an_event())

    assert await counted(pipeline, keys) == 10


async def test_the_newest_entries_are_missed_too(stream: EventStream, pipeline: Pipeline, keys: Keys, client: Any) -> None:
    ids = await a_group_after_ten(stream, pipeline, keys)
    client.xdel(keys.events(0, "default"), *ids[8:])

    assert await counted(pipeline, keys) == 2


async def test_each_group_loses_what_it_was_not_handed(stream: EventStream, pipeline: Pipeline, keys: Keys, client: Any) -> None:
    await groups.declare(pipeline, keys=keys, group="slow")
    await a_group_after_ten(stream, pipeline, keys)
    await read_all(await reader_of(pipeline, keys, group="quick"))
    await janitor.trim(pipeline, keys=keys)
    client.xtrim(keys.events(0, "default"), maxlen=0, approximate=False)

    assert [await counted(pipeline, keys, group=group) for group in ("slow", "g", "quick")] == [20, 10, 0]


async def test_what_is_in_work_when_it_is_trimmed_is_counted_by_whoever_has_it_and_not_twice(
    stream: EventStream, pipeline: Pipeline, keys: Keys, client: Any, log: LogSettings, home: Path
) -> None:
    await a_group_after_ten(stream, pipeline, keys)
    await pipeline.call("XREADGROUP", "GROUP", "g", "c1", "COUNT", 4, "STREAMS", keys.events(0, "default"), ">")  # since the last look
    client.xtrim(keys.events(0, "default"), maxlen=3, approximate=False)

    assert [await counted(pipeline, keys) for _ in range(2)] == [3, 3]
    assert ranges(log, home) == [(15, 17)]


@pytest.mark.parametrize("slip", ["trim", "delete"])
async def test_what_was_settled_since_the_last_look_is_not_lost_when_it_is_removed(
    stream: EventStream, pipeline: Pipeline, keys: Keys, client: Any, log: LogSettings, home: Path, slip: str
) -> None:
    await a_group_after_ten(stream, pipeline, keys)
    reader, name = await reader_of(pipeline, keys), keys.events(0, "default")
    reply = await pipeline.call("XREADGROUP", "GROUP", "g", "c1", "COUNT", 4, "STREAMS", name, ">")
    taken = [Lease(0, name, entry_id.decode(), 1, []) for _, entries in reply for entry_id, _ in entries]
    await settle_as(reader, pipeline, keys, *((lease, Ack(Ran("an id", "p", 1, 0, 1.0))) for lease in taken))
    client.delete(name) if slip == "delete" else client.xtrim(name, maxlen=0, approximate=False)

    assert [await counted(pipeline, keys) for _ in range(2)] == [6, 6]
    assert ranges(log, home) == [(15, 20)]


async def test_two_housekeepers_at_once_count_a_loss_once(stream: EventStream, pipeline: Pipeline, keys: Keys, client: Any) -> None:
    await a_group_after_ten(stream, pipeline, keys)
    client.xtrim(keys.events(0, "default"), maxlen=3, approximate=False)

    await asyncio.gather(*(janitor.trim(pipeline, keys=keys) for _ in range(5)))

    assert await counted(pipeline, keys) == 7


async def test_a_stream_that_is_too_large_for_one_look_is_looked_through_in_several(
    stream: EventStream, pipeline: Pipeline, keys: Keys, client: Any, log: LogSettings, home: Path
) -> None:
    await groups.declare(pipeline, keys=keys, group="g")
    ids = [(await stream.append(an_event(payload=b"x" * 500_000))).entry_id for _ in range(25)]
    await janitor.trim(pipeline, keys=keys)
    client.xdel(keys.events(0, "default"), ids[1], ids[22])

    one_look = [keys.events(0, "default"), keys.registry(0), keys.ledger(0)]
    looks = [await pipeline.run("trim", keys=one_look, args=[]) for _ in range(4)]

    assert looks[0] == -1
    assert looks[-1] == 0
    assert ranges(log, home) == [(2, 2), (23, 23)]
    assert await counted(pipeline, keys) == 2


async def test_what_is_removed_behind_a_look_that_takes_several_steps_is_counted_too(
    stream: EventStream, pipeline: Pipeline, keys: Keys, client: Any, log: LogSettings, home: Path
) -> None:
    await groups.declare(pipeline, keys=keys, group="g")
    name = keys.events(0, "default")
    ids = [(await stream.append(an_event(payload=b"x" * 500_000))).entry_id for _ in range(25)]
    await janitor.trim(pipeline, keys=keys)
    client.xdel(name, ids[22])
    assert await pipeline.run("trim", keys=[name, keys.registry(0), keys.ledger(0)], args=[]) == -1
    client.xtrim(name, maxlen=20, approximate=False)
    await pipeline.call("XREADGROUP", "GROUP", "g", "c1", "COUNT", 1, "STREAMS", name, ">")  # so that it is noted as past the gap

    assert [await counted(pipeline, keys) for _ in range(2)] == [5, 5]
    assert ranges(log, home) == [(1, 4), (23, 23)]


async def test_our_own_trim_is_no_loss(stream: EventStream, pipeline: Pipeline, keys: Keys, archive_log: ArchiveLog) -> None:
    for _ in range(3):
        reader = await reader_of(pipeline, keys)
        await append_ten(stream)
        await settle_as(reader, pipeline, keys, *((lease, Ack()) for lease in await read_all(reader)))
        archive_log.move({end.stream: end.last for end in archive_log.ends()})
        assert await janitor.trim(pipeline, keys=keys) == 10

    assert await counted(pipeline, keys) == 0


async def test_what_is_spilled_is_owed_and_not_lost(
    stream: EventStream, pipeline: Pipeline, keys: Keys, archive_log: ArchiveLog, client: Any
) -> None:
    ids = await a_group_after_ten(stream, pipeline, keys)
    archive_log.move({DEFAULT: Position(archive_log.ends()[0].incarnation, ids[5], 16)})
    assert await spill(pipeline, keys=keys, shard=0, name="default") == 6
    assert await janitor.trim(pipeline, keys=keys) == 16

    assert await counted(pipeline, keys) == 0
    client.xtrim(keys.events(0, "default"), maxlen=1, approximate=False)
    assert await counted(pipeline, keys) == 3


async def test_what_is_purged_is_dropped_and_not_lost(
    stream: EventStream, pipeline: Pipeline, keys: Keys, archive_log: ArchiveLog, log: LogSettings, home: Path
) -> None:
    await a_group_after_ten(stream, pipeline, keys)
    purging = Purging.open(log, home=home)
    purging.purge("g", by="me@here")
    purging.close()
    archive_log.move({end.stream: end.last for end in archive_log.ends()})

    assert (await janitor.trim(pipeline, keys=keys), await counted(pipeline, keys)) == (20, 0)


async def test_a_new_group_has_not_lost_what_was_gone_before_it_was_made(
    stream: EventStream, pipeline: Pipeline, keys: Keys, client: Any
) -> None:
    await a_group_after_ten(stream, pipeline, keys)
    client.xtrim(keys.events(0, "default"), maxlen=3, approximate=False)
    await groups.declare(pipeline, keys=keys, group="new")

    assert [await counted(pipeline, keys, group="new"), await counted(pipeline, keys)] == [0, 7]


async def test_a_new_group_loses_what_goes_before_anybody_has_seen_it(
    stream: EventStream, pipeline: Pipeline, keys: Keys, client: Any, log: LogSettings, home: Path
) -> None:
    await append_ten(stream)
    client.xtrim(keys.events(0, "default"), maxlen=8, approximate=False)
    await groups.declare(pipeline, keys=keys, group="new")
    client.xtrim(keys.events(0, "default"), maxlen=3, approximate=False)

    assert await counted(pipeline, keys, group="new") == 5
    assert ranges(log, home, group="new") == [(3, 7)]


async def test_a_group_that_comes_back_where_it_was_has_lost_nothing(
    stream: EventStream, pipeline: Pipeline, keys: Keys, client: Any
) -> None:
    await a_group_after_ten(stream, pipeline, keys)
    client.xgroup_destroy(keys.events(0, "default"), "g")
    assert await counted(pipeline, keys) == 0

    reader = await reader_of(pipeline, keys)

    assert (await counted(pipeline, keys), len(await read_all(reader)), await counted(pipeline, keys)) == (0, 10, 0)


async def test_a_new_incarnation_is_no_loss_and_what_is_left_of_the_old_one_still_counts(
    pipeline: Pipeline, keys: Keys, client: Any, archive_log: ArchiveLog
) -> None:
    archive_log.ends()
    await groups.declare(pipeline, keys=keys, group="g")
    lives_of(client, keys, lives={"first1": 6})
    assert await counted(pipeline, keys) == 0
    client.hset(keys.ledger(0), mapping={"incarnation": "second2", "sequence:default:second2": 0})
    assert await counted(pipeline, keys) == 0
    for number in range(1, 5):
        client.xadd(keys.events(0, "default"), {"incarnation": "second2", "sequence": number}, id=f"{10_000 * number}-0")
        client.hset(keys.ledger(0), "sequence:default:second2", number)
    assert await counted(pipeline, keys) == 0

    client.xtrim(keys.events(0, "default"), maxlen=1, approximate=False)

    assert await counted(pipeline, keys) == 9


@pytest.mark.fault("B8")
async def test_a_loss_is_counted_on_a_server_whose_memory_is_full(
    own_stream: EventStream, own_pipeline: Pipeline, own_client: Any, own_log: LogSettings
) -> None:
    keys = Keys(own_log.prefix, 1)
    await a_group_after_ten(own_stream, own_pipeline, keys)
    own_client.xtrim(keys.events(0, "default"), maxlen=3, approximate=False)
    own_client.config_set("maxmemory", 1)

    assert await counted(own_pipeline, keys) == 7


async def test_foreign_entries_have_no_number_to_miss(stream: EventStream, pipeline: Pipeline, keys: Keys, client: Any) -> None:
    await a_group_after_ten(stream, pipeline, keys)
    foreign = [client.xadd(keys.events(0, "default"), {"not": "ours"}) for _ in range(3)]
    await stream.append(an_event())
    assert await counted(pipeline, keys) == 0
    client.xdel(keys.events(0, "default"), *foreign[:2])

    assert await counted(pipeline, keys) == 0


async def test_a_round_in_which_nothing_happened_writes_nothing(stream: EventStream, pipeline: Pipeline, keys: Keys, client: Any) -> None:
    await a_group_after_ten(stream, pipeline, keys)
    before = client.hgetall(keys.registry(0))

    for _ in range(3):
        await janitor.trim(pipeline, keys=keys)
        assert client.hgetall(keys.registry(0)) == before
