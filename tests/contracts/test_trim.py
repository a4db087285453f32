"""Nothing leaves the log before every group has settled it and the archive has committed it."""

from __future__ import annotations

from typing import Any

import pytest

from infra.settings import LogSettings
from infra.streams import groups, janitor
from infra.streams.keys import Keys
from infra.streams.pipelining import Pipeline
from infra.streams.positions import Position, StreamName
from infra.streams.ranges import ArchiveLog
from infra.streams.reading import GroupReader
from infra.streams.settle import Ack, settle
from infra.streams.stream import EventStream
from tests.infra.streams.deliveries import append_ten

STREAM = StreamName(0, "default")


@pytest.fixture
def log(log: LogSettings) -> LogSettings:
    return log.model_copy(update={"shards": 1})


async def test_nothing_is_trimmed_before_it_is_archived(
    stream: EventStream, archive_log: ArchiveLog, pipeline: Pipeline, keys: Keys
) -> None:
    await append_ten(stream)
    await groups.declare(pipeline, keys=keys, group="g")
    reader = GroupReader(pipeline, keys=keys, group="g", consumer="c")
    taken = await reader.read(budget=100, block_ms=100)
    await settle(pipeline, keys=keys, group="g", consumer="c", decisions=[(lease, Ack()) for lease in taken])

    assert len(taken) == 10
    assert await janitor.trim(pipeline, keys=keys) == 0  # no archive has ever looked at this log
    archive_log.ends()
    assert await janitor.trim(pipeline, keys=keys) == 0  # it has looked, and committed nothing


async def test_what_is_archived_and_settled_is_trimmed(
    stream: EventStream, archive_log: ArchiveLog, pipeline: Pipeline, keys: Keys, client: Any
) -> None:
    ids = await append_ten(stream)
    incarnation = archive_log.ends()[0].incarnation
    await groups.declare(pipeline, keys=keys, group="g")
    reader = GroupReader(pipeline, keys=keys, group="g", consumer="c")
    taken = await reader.read(budget=100, block_ms=100)

    archive_log.move({STREAM: Position(incarnation, ids[6], 7)})
    assert archive_log.trim() == 0  # group g has settled nothing
    await settle(pipeline, keys=keys, group="g", consumer="c", decisions=[(lease, Ack()) for lease in taken if lease.entry_id != ids[3]])
    assert archive_log.trim() == 3  # the fourth is pending
    await settle(pipeline, keys=keys, group="g", consumer="c", decisions=[(lease, Ack()) for lease in taken if lease.entry_id == ids[3]])
    assert archive_log.trim() == 4  # up to the archived mark

    assert [entry_id.decode() for entry_id, _ in client.xrange(keys.events(0, "default"))] == ids[7:]


async def test_a_declared_group_that_vanished_stops_all_trimming(
    stream: EventStream, archive_log: ArchiveLog, pipeline: Pipeline, keys: Keys, client: Any
) -> None:
    await append_ten(stream)
    archive_log.move({end.stream: end.last for end in archive_log.ends()})
    await groups.declare(pipeline, keys=keys, group="g")
    client.xgroup_destroy(keys.events(0, "default"), "g")

    assert archive_log.trim() == 0
    assert await groups.declare(pipeline, keys=keys, group="g") == 1
    reader = GroupReader(pipeline, keys=keys, group="g", consumer="c")
    assert len(await reader.read(budget=100, block_ms=100)) == 10


@pytest.mark.parametrize(("archived", "settled", "removed"), [("1000-3", "1000-6", 3), ("1000-6", "1000-3", 3), ("1000-4", "1000-4", 4)])
def test_the_lower_of_two_marks_within_a_millisecond_counts(
    archive_log: ArchiveLog, keys: Keys, client: Any, archived: str, settled: str, removed: int
) -> None:
    name = keys.events(0, "default")
    for counter in range(1, 11):
        client.xadd(name, {"x": "y"}, id=f"1000-{counter}")
    client.xgroup_create(name, "archive", archived)
    client.xgroup_create(name, "g", settled)

    assert archive_log.trim() == removed


def test_an_entry_id_that_is_no_time_can_be_trimmed_too(archive_log: ArchiveLog, keys: Keys, client: Any) -> None:
    far = "18446744073709551000-0"
    incarnation = archive_log.ends()[0].incarnation
    client.xadd(keys.events(0, "default"), {"foreign": "x"}, id=far)
    archive_log.move({STREAM: Position(incarnation, far, 0)})

    assert archive_log.trim() == 1
