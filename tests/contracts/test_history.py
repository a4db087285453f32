"""A group that begins with the whole history stands at the end of each stream, and it is known where that was."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from infra.settings import LogSettings
from infra.streams import groups, janitor
from infra.streams.history import Histories, Mark
from infra.streams.keys import Keys
from infra.streams.lag import read_lag
from infra.streams.pipelining import Pipeline
from infra.streams.positions import Position, StreamName
from infra.streams.ranges import ArchiveLog
from infra.streams.reading import GroupReader
from infra.streams.stream import EventStream
from schemas.errors import GroupInUse
from tests.events import an_event
from tests.infra.streams.deliveries import append_ten, read_all, reader_of


@pytest.fixture
def log(log: LogSettings) -> LogSettings:
    return log.model_copy(update={"shards": 1})


@pytest.fixture
def histories(log: LogSettings, home: Path) -> Iterator[Histories]:
    opened = Histories.open(log, home=home)
    yield opened
    opened.close()


def mark_of(marks: list[Mark], stream: str = "0:default") -> Mark:
    (found,) = [mark for mark in marks if mark.stream == stream]
    return found


async def test_the_group_is_handed_what_comes_after_its_marks_and_nothing_before(
    stream: EventStream, pipeline: Pipeline, keys: Keys, histories: Histories, archive_log: ArchiveLog
) -> None:
    await append_ten(stream)

    marks = histories.begin("g", replay="r1")
    after = [await stream.append(an_event()) for _ in range(3)]

    reader = await reader_of(pipeline, keys)
    assert [lease.entry_id for lease in await read_all(reader)] == [receipt.entry_id for receipt in after]
    assert mark_of(marks).number == 10
    assert mark_of(marks).incarnation == archive_log.ends()[0].incarnation
    assert [mark.number for mark in marks if mark.stream != "0:default"] == [0, 0, 0]
    assert {lag.undelivered for lag in await read_lag(pipeline, keys=keys, group="g")} == {0}


async def test_beginning_again_finds_the_marks_of_the_first_time(stream: EventStream, histories: Histories) -> None:
    await append_ten(stream)
    first = histories.begin("g", replay="r1")
    await append_ten(stream)

    assert histories.begin("g", replay="r1") == first == histories.marks("g", replay="r1")


async def test_a_worker_that_made_the_group_a_moment_before_is_put_at_the_marks(
    stream: EventStream, pipeline: Pipeline, keys: Keys, histories: Histories
) -> None:
    await append_ten(stream)
    await groups.declare(pipeline, keys=keys, group="g")

    marks = histories.begin("g", replay="r1")

    assert mark_of(marks).number == 10
    assert await read_all(GroupReader(pipeline, keys=keys, group="g", consumer="c1")) == []


async def test_a_group_that_was_handed_something_is_refused_and_stays_where_it_is(
    stream: EventStream, pipeline: Pipeline, keys: Keys, histories: Histories
) -> None:
    await append_ten(stream)
    reader = await reader_of(pipeline, keys)
    taken = await reader.read(budget=6, block_ms=100)
    assert taken

    with pytest.raises(GroupInUse, match="was handed events already"):
        histories.begin("g", replay="r1")

    assert len(taken) + len(await read_all(reader)) == 10


async def test_a_group_that_vanished_comes_back_at_its_marks(
    stream: EventStream, pipeline: Pipeline, keys: Keys, histories: Histories, client: Any
) -> None:
    await append_ten(stream)
    histories.begin("g", replay="r1")
    (after,) = [await stream.append(an_event())]

    client.xgroup_destroy(keys.events(0, "default"), "g")

    reader = await reader_of(pipeline, keys)
    assert [lease.entry_id for lease in await read_all(reader)] == [after.entry_id]


async def test_nothing_that_was_trimmed_before_its_marks_is_counted_as_its_loss(
    stream: EventStream, pipeline: Pipeline, keys: Keys, histories: Histories, archive_log: ArchiveLog, client: Any
) -> None:
    ids = await append_ten(stream)
    incarnation = archive_log.ends()[0].incarnation
    histories.begin("g", replay="r1")
    archive_log.move({StreamName(0, "default"): Position(incarnation, ids[9], 10)})

    assert await janitor.trim(pipeline, keys=keys) == 10

    assert client.hget(keys.ledger(0), "lost:g") is None


async def test_it_is_known_how_much_the_archive_has_to_take_up_to_the_marks(
    stream: EventStream, histories: Histories, archive_log: ArchiveLog
) -> None:
    ids = await append_ten(stream)
    incarnation = archive_log.ends()[0].incarnation
    marks = histories.begin("g", replay="r1")
    await append_ten(stream)

    left = [histories.unarchived(marks)]
    for number in (4, 10):
        archive_log.move({StreamName(0, "default"): Position(incarnation, ids[number - 1], number)})
        left.append(histories.unarchived(marks))

    assert left == [10, 6, 0]


async def test_lives_of_the_log_that_began_after_the_marks_are_told_from_those_before(
    stream: EventStream, histories: Histories, keys: Keys, client: Any
) -> None:
    client.hset(keys.ledger(0), "sequence:default:before1", 7)
    await append_ten(stream)
    marks = histories.begin("g", replay="r1")
    client.hset(keys.ledger(0), "sequence:default:later1", 3)

    found = mark_of(histories.since(marks))

    assert "before1" in found.known
    assert found.later == ("later1",)
