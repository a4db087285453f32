"""Records that wait together share one sync; a disk that fails is said, and what was synced before is never touched again."""

from __future__ import annotations

import asyncio
import errno
import os
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from infra.clock import Clock
from infra.segments import Record
from infra.spools import Folder, Place
from ingest.group_commit import GroupCommit
from schemas.errors import SpoolUnavailable

DEADLINE_S = 5


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    return Folder(tmp_path)


@pytest.fixture
async def writer(folder: Folder) -> AsyncIterator[GroupCommit]:
    opened = GroupCommit(folder, first_number=1, segment_bytes=1000, clock=Clock())
    yield opened
    await opened.close()


class Syncs:
    """Counts the real ones, and lets some of them fail as a disk would."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.count, self.failing = 0, False
        self._really = os.fdatasync
        monkeypatch.setattr("ingest.group_commit.os.fdatasync", self)

    def __call__(self, descriptor: int) -> None:
        self.count += 1
        if self.failing:
            raise OSError(errno.EIO, "Input/output error")
        self._really(descriptor)


def payloads(folder: Folder) -> list[bytes]:
    return [one.payload for segment in folder.segments() for one in segment.scan() if isinstance(one, Record)]


def nothing(_: Place | None) -> None:
    return None


async def test_many_that_wait_together_share_a_sync_and_keep_their_order(
    folder: Folder, writer: GroupCommit, monkeypatch: pytest.MonkeyPatch
) -> None:
    syncs, ends = Syncs(monkeypatch), list[Place | None]()
    await writer.write(b"first", events=1, then=nothing)

    await asyncio.gather(*(writer.write(b"%d" % number, events=1, then=ends.append) for number in range(200)))

    assert payloads(folder)[:6] == [b"first", b"0", b"1", b"2", b"3", b"4"]
    assert len(payloads(folder)) == 201
    assert syncs.count <= 20
    assert ends == sorted(ends, key=lambda end: end or Place())


async def test_a_segment_that_is_long_enough_is_followed_by_another(folder: Folder, writer: GroupCommit) -> None:
    for _ in range(30):
        await writer.write(b"x" * 100, events=1, then=nothing)

    assert [segment.number for segment in folder.segments()] == [1, 2, 3, 4]
    assert len(payloads(folder)) == 30


@pytest.mark.fault("B11")
async def test_after_a_sync_that_failed_nobody_is_answered_and_the_segment_is_left_as_it_was(
    folder: Folder, writer: GroupCommit, monkeypatch: pytest.MonkeyPatch
) -> None:
    syncs, ends = Syncs(monkeypatch), list[Place | None]()
    await writer.write(b"before", events=1, then=nothing)

    syncs.failing = True
    outcomes = await asyncio.gather(*(writer.write(b"lost", events=1, then=ends.append) for _ in range(3)), return_exceptions=True)
    syncs.failing = False
    await writer.write(b"after", events=1, then=nothing)

    assert [type(outcome) for outcome in outcomes] == [SpoolUnavailable] * 3
    assert ends == [None, None, None]
    assert payloads(folder) == [b"before", b"after"]
    assert [segment.number for segment in folder.segments()][-1] > 1


async def test_a_full_disk_is_said_and_leaves_no_half_of_a_record(
    folder: Folder, writer: GroupCommit, monkeypatch: pytest.MonkeyPatch
) -> None:
    await writer.write(b"before", events=1, then=nothing)
    really = os.write

    def half(descriptor: int, data: bytes) -> int:
        if len(data) > 30:
            return really(descriptor, data[:30])
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("ingest.group_commit.os.write", half)
    with pytest.raises(SpoolUnavailable, match="No space left"):
        await writer.write(b"too much", events=1, then=nothing)
    monkeypatch.setattr("ingest.group_commit.os.write", really)
    await writer.write(b"after", events=1, then=nothing)

    assert payloads(folder) == [b"before", b"after"]
    assert [one for segment in folder.segments() for one in segment.scan() if not isinstance(one, Record)] == []


async def test_a_disk_that_fails_for_long_is_not_filled_with_segments(
    folder: Folder, writer: GroupCommit, monkeypatch: pytest.MonkeyPatch
) -> None:
    syncs = Syncs(monkeypatch)
    await writer.write(b"before", events=1, then=nothing)
    syncs.failing = True

    for _ in range(20):
        with pytest.raises(SpoolUnavailable):
            await writer.write(b"lost", events=1, then=nothing)

    assert [segment.number for segment in folder.segments()] == [1]


@pytest.mark.parametrize("error", [MemoryError(), ValueError("a mistake of ours")])
async def test_whatever_goes_wrong_is_said_to_who_waits_and_the_next_one_is_written(
    folder: Folder, writer: GroupCommit, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    ends: list[Place | None] = []
    await writer.write(b"before", events=1, then=nothing)

    monkeypatch.setattr("ingest.group_commit.write_all", raising(error))
    with pytest.raises(SpoolUnavailable, match=type(error).__name__):
        await asyncio.wait_for(writer.write(b"lost", events=1, then=ends.append), DEADLINE_S)
    monkeypatch.undo()
    await asyncio.wait_for(writer.write(b"after", events=1, then=ends.append), DEADLINE_S)

    assert (ends[0], len(ends)) == (None, 2)
    assert payloads(folder) == [b"before", b"after"]


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
async def test_a_thread_that_ends_is_said_to_all_who_wait_and_all_who_come_later(
    folder: Folder, writer: GroupCommit, monkeypatch: pytest.MonkeyPatch
) -> None:
    ends: list[Place | None] = []
    monkeypatch.setattr(writer, "_cut", raising(MemoryError()))
    monkeypatch.setattr("ingest.group_commit.write_all", raising(MemoryError()))
    monkeypatch.setattr("ingest.group_commit.MOST_BYTES", 1)  # each of them a write of its own
    waiting = [writer.write(b"%d" % number, events=1, then=ends.append) for number in range(3)]

    outcomes = await asyncio.wait_for(asyncio.gather(*waiting, writer.seal(), return_exceptions=True), DEADLINE_S)
    later = [writer.write(b"later", events=1, then=ends.append), writer.seal()]
    outcomes += await asyncio.wait_for(asyncio.gather(*later, return_exceptions=True), DEADLINE_S)

    assert [type(outcome) for outcome in outcomes] == [SpoolUnavailable] * 6
    assert ends == [None] * 4


async def test_who_comes_when_it_was_closed_is_told_so(writer: GroupCommit) -> None:
    await writer.close()

    with pytest.raises(SpoolUnavailable):
        await asyncio.wait_for(writer.write(b"too late", events=1, then=nothing), DEADLINE_S)


def raising(error: Exception) -> Callable[..., None]:
    def fail(*_: object) -> None:
        raise error

    return fail


async def test_sealing_lets_the_next_record_begin_a_segment(folder: Folder, writer: GroupCommit) -> None:
    await writer.write(b"one", events=1, then=nothing)

    place = await writer.seal()
    await writer.write(b"two", events=1, then=nothing)

    assert place == Place(2, 0)
    assert [segment.number for segment in folder.segments()] == [1, 2]


async def test_whoever_gave_up_waiting_is_written_all_the_same(folder: Folder, writer: GroupCommit) -> None:
    ends: list[Place | None] = []
    waiting = asyncio.ensure_future(writer.write(b"given up", events=1, then=ends.append))
    await asyncio.sleep(0)

    waiting.cancel()
    await writer.write(b"next", events=1, then=ends.append)

    assert payloads(folder) == [b"given up", b"next"]
    assert None not in ends
    assert len(ends) == 2
