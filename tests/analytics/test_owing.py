"""A group gets what it had not settled when the log was wiped, as far as that is archived: from the table, each event once."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from analytics import archive as archive_module
from analytics.archive import Archive
from analytics.commits import Commit
from analytics.lives import Life
from analytics.owing import owing
from analytics.refill import Refill
from infra.settings import LogSettings
from infra.streams import ranges as ranges_module
from infra.streams.owed import OwedRange
from infra.streams.positions import Position, StreamName
from infra.streams.ranges import ArchiveLog, StreamEnd
from infra.streams.settled import Owing
from schemas.errors import StreamUnavailable
from schemas.event import StreamEvent
from tests.analytics.conftest import OpenArchive, append
from tests.analytics.test_refill import declare_and_spill, look, owed_now
from tests.analytics.test_refill import refill as refill
from tests.analytics.test_replay import taken
from tests.events import an_event
from tests.infra.streams.raw import open_raw

STREAM = StreamName(0, "default")


def end(incarnation: str, **given: int) -> StreamEnd:
    return StreamEnd(STREAM, Position(incarnation, "99-0", given.get(incarnation, 0)), given)


def owed_of(mark: Position, lives: dict[str, Life], **given: int) -> list[tuple[str, int, int]]:
    found = owing([end("new", **given)], known={STREAM: lives}, settled={STREAM: {"g": mark}})
    return [(one.range.incarnation, one.range.first, one.range.last) for one in found]


def test_a_log_that_knows_nothing_any_more_owes_what_is_archived_and_not_settled() -> None:
    found = owing([end("new", new=3)], known={STREAM: {"old": Life("9-0", 9, 12)}}, settled={STREAM: {"g": Position("old", "4-0", 4)}})

    assert found == [Owing(0, "g", OwedRange("default", "old", "4-0", "9-0", 5, 9))]


def test_a_server_that_lacks_the_end_owes_what_it_lacks() -> None:
    lives = {"old": Life("9-0", 9, 9)}

    assert owed_of(Position("old", "4-0", 4), lives, old=7) == [("old", 8, 9)]
    assert owed_of(Position("old", "8-0", 8), lives, old=7) == [("old", 9, 9)]
    assert owed_of(Position("old", "4-0", 4), lives, old=9) == []


def test_a_group_that_was_lives_behind_is_owed_the_later_ones_too_and_no_earlier_one() -> None:
    lives = {"first": Life("3-0", 3, 3), "second": Life("9-0", 6, 6), "third": Life("20-0", 11, 11)}

    assert owed_of(Position("second", "7-0", 4), lives) == [("second", 5, 6), ("third", 1, 11)]


def wipe(log: LogSettings, home: Path) -> None:
    """As FLUSHALL would, on a server that others share."""
    with open_raw(log, home=home) as client:
        for key in list(client.scan_iter(match=f"{log.prefix}*", count=1000)):
            client.delete(key)


class World:
    """A group that has settled some of what is archived."""

    def __init__(self, log: LogSettings, home: Path, archive: Archive) -> None:
        self.log, self.home, self.archive = log, home, archive
        declare_and_spill(log, home, spills=False)
        self.settled = self.append(10)
        assert len(taken(log, home)) == 10
        self.unsettled = self.append(20)
        assert len(taken(log, home, settles=False)) == 20
        self.last: Commit = archive.run_batch(archive.start())

    def append(self, count: int) -> list[StreamEvent]:
        events = [an_event() for _ in range(count)]
        append(self.log, self.home, *events)
        return events

    def given_back(self, refill: Refill) -> list[str]:
        return given_back(self.log, self.home, refill)


def given_back(log: LogSettings, home: Path, refill: Refill) -> list[str]:
    """What the group is handed in the end, once its worker has declared it again."""
    found: list[Any] = taken(log, home)
    while refill.step() or owed_now(log, home):
        found += taken(log, home)
    return sorted(event.id for _, event, _ in found)


@pytest.fixture
def world(open_archive: OpenArchive, log: LogSettings, home: Path) -> World:
    return World(log, home, open_archive())


@pytest.mark.fault("D10")
def test_what_a_group_had_not_settled_when_the_log_was_wiped_is_given_back(world: World, refill: Refill) -> None:
    wipe(world.log, world.home)
    later = world.append(3)

    world.last = world.archive.run_batch(world.last)

    assert world.given_back(refill) == sorted(event.id for event in (*world.unsettled, *later))
    assert [state.lost for state in look(world.log, world.home).groups if state.group == "g"] == [0]
    world.append(1)
    assert world.archive.run_batch(world.last).owing == []


@pytest.mark.control("D10")
def test_who_is_not_declared_again_misses_what_comes_before_its_worker_does(
    world: World, refill: Refill, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ranges_module, "declare_again", lambda *_, **__: None)
    wipe(world.log, world.home)
    world.append(3)

    world.archive.run_batch(world.last)

    assert world.given_back(refill) == sorted(event.id for event in world.unsettled)


@pytest.mark.control("D10")
def test_without_it_the_group_never_sees_them(world: World, refill: Refill, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(archive_module, "owing", lambda *_, **__: [])
    wipe(world.log, world.home)

    world.archive.run_batch(world.last)

    assert world.given_back(refill) == []


@pytest.mark.parametrize("has_died", [False, True])
def test_what_was_settled_after_the_last_look_is_handed_out_again_and_nothing_else(
    open_archive: OpenArchive, log: LogSettings, home: Path, refill: Refill, has_died: bool
) -> None:
    declare_and_spill(log, home, spills=False)
    events = [an_event() for _ in range(10)]
    append(log, home, *events)
    archive = open_archive()
    last = archive.run_batch(archive.start())
    assert len(taken(log, home)) == 10
    assert archive.run_batch(last) is last
    if has_died:  # What it saw last is known by its commits alone.
        archive = open_archive()
        last = archive.start()

    wipe(log, home)
    archive.run_batch(last)

    assert given_back(log, home, refill) == (sorted(event.id for event in events) if has_died else [])


def test_an_archive_that_dies_before_it_has_said_so_says_it_when_it_starts_and_once(
    world: World, refill: Refill, open_archive: OpenArchive, monkeypatch: pytest.MonkeyPatch
) -> None:
    wipe(world.log, world.home)
    with monkeypatch.context() as broken:
        broken.setattr(ArchiveLog, "make_good", fail)
        with pytest.raises(StreamUnavailable):
            world.archive.run_batch(world.last)

    open_archive().start()
    found = world.given_back(refill)
    open_archive().start()

    assert found == sorted(event.id for event in world.unsettled)
    assert world.given_back(refill) == []


def fail(*_: object, **__: object) -> None:
    raise StreamUnavailable("gone")
