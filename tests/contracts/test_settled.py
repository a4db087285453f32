"""The log says how far each durable group has settled its streams, and what a group is owed is said once."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from infra.settings import LogSettings
from infra.streams import groups
from infra.streams.group_removal import GroupRemoval
from infra.streams.keys import Keys
from infra.streams.owed import OwedRange
from infra.streams.pipelining import Pipeline
from infra.streams.positions import Position, StreamName
from infra.streams.ranges import ArchiveLog
from infra.streams.settle import Ack
from infra.streams.settled import Owing
from infra.streams.stream import EventStream
from tests.infra.streams.deliveries import add_foreign, append_ten, read_all, reader_of, settle_as

STREAM = StreamName(0, "default")


@pytest.fixture
def log(log: LogSettings) -> LogSettings:
    return log.model_copy(update={"shards": 1})


def mark(archive_log: ArchiveLog, *, group: str = "g") -> Position:
    return archive_log.look().settled[STREAM][group]


async def test_a_group_has_settled_what_lies_before_the_first_entry_that_it_still_needs(
    stream: EventStream, pipeline: Pipeline, keys: Keys, archive_log: ArchiveLog
) -> None:
    reader = await reader_of(pipeline, keys)
    incarnation = archive_log.look().ends[0].incarnation
    assert mark(archive_log) == Position(incarnation, "0-0", 0)
    ids = await append_ten(stream)
    assert mark(archive_log) == Position(incarnation, "0-0", 0)

    leases = await read_all(reader)
    assert mark(archive_log) == Position(incarnation, "0-0", 0)
    await settle_as(reader, pipeline, keys, *((lease, Ack()) for lease in (*leases[:4], *leases[6:])))
    assert mark(archive_log) == Position(incarnation, ids[3], 4)
    await settle_as(reader, pipeline, keys, *((lease, Ack()) for lease in leases[4:6]))

    assert mark(archive_log) == Position(incarnation, ids[9], 10)


async def test_entries_without_a_number_lie_between_two_marks(
    stream: EventStream, pipeline: Pipeline, keys: Keys, client: Any, archive_log: ArchiveLog
) -> None:
    reader = await reader_of(pipeline, keys)
    await append_ten(stream)
    await settle_as(reader, pipeline, keys, *((lease, Ack()) for lease in await read_all(reader)))

    add_foreign(client, keys.events(0, "default"), {"a": "b"})

    assert mark(archive_log).sequence == 10


async def test_only_durable_groups_are_owed_anything(pipeline: Pipeline, keys: Keys, archive_log: ArchiveLog) -> None:
    await groups.declare(pipeline, keys=keys, group="stays")
    await groups.declare(pipeline, keys=keys, group="goes", kind="ephemeral", ttl_ms=60_000)

    assert set(archive_log.look().settled[STREAM]) == {"stays"}


def test_what_is_owed_is_said_once_also_when_it_was_given_back_meanwhile(keys: Keys, client: Any, archive_log: ArchiveLog) -> None:
    owing = Owing(0, "g", OwedRange("default", "aabbccdd", "5-0", "9-0", 6, 9))

    archive_log.make_good(groups=[], owing=[owing, owing])
    assert client.hgetall(keys.owed(0, "g")) == {b"range|default|aabbccdd|9-0": b"5-0|6|9"}
    assert client.hget(keys.ledger(0), "owed:g") == b"4"
    client.delete(keys.owed(0, "g"))
    archive_log.make_good(groups=[], owing=[owing])

    assert not client.exists(keys.owed(0, "g"))


def test_a_group_that_was_forgotten_comes_back_durable_and_once(
    keys: Keys, client: Any, archive_log: ArchiveLog, log: LogSettings, home: Path
) -> None:
    archive_log.look()
    archive_log.make_good(groups=["g"], owing=[])
    assert set(archive_log.look().settled[STREAM]) == {"g"}
    removal = GroupRemoval.open(log, home=home)
    removal.remove("g", least_idle_ms=0)
    removal.close()

    archive_log.make_good(groups=["g"], owing=[])

    assert client.hget(keys.registry(0), "group:g") is None
