"""What operators are told about spools: how much waits, since when, and whether somebody looks after it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from infra.segments import Segment
from infra.spools import Folder, Place, read_spools


@pytest.fixture
def folder(home: Path) -> Folder:
    path = home / "spool" / "receiver-0"
    path.mkdir(parents=True)
    return Folder(path)


def a_segment(folder: Folder, *, number: int, payloads: list[bytes]) -> Segment:
    made = Segment.new(folder.path, number=number)
    made.path.write_bytes(b"".join(made.frame(payload, events=2, at_ms=number) for payload in payloads))
    return made


def test_a_home_without_spools_has_none(home: Path) -> None:
    assert read_spools(home) == []


def test_what_waits_is_counted_from_the_noted_position(home: Path, folder: Folder) -> None:
    first = a_segment(folder, number=1, payloads=[b"done", b"waits"])
    a_segment(folder, number=2, payloads=[b"waits"])

    (before,) = read_spools(home)
    done, _ = first.scan()
    folder.note_position(first, offset=done.end)
    (after,) = read_spools(home)

    assert (before.receiver, before.events, before.oldest_ms, before.is_held) == ("receiver-0", 6, 1, False)
    assert (after.events, after.oldest_ms) == (4, 1)
    assert before.size_bytes - after.size_bytes == done.end


def test_a_position_that_is_torn_or_of_another_segment_is_not_believed(folder: Folder) -> None:
    segment = a_segment(folder, number=1, payloads=[b"waits"])
    folder.note_position(segment, offset=5)
    assert folder.position() == Place(1, 5)

    segment.path.unlink()
    a_segment(folder, number=1, payloads=[b"another"])
    assert folder.position() == Place()
    (folder.path / "position").write_bytes(b"")
    assert folder.position() == Place()


def test_a_folder_is_held_by_one_at_a_time(home: Path, folder: Folder) -> None:
    held = folder.hold()
    assert held is not None
    assert (folder.hold(), read_spools(home)[0].is_held) == (None, True)

    os.close(held)

    again = folder.hold()
    assert again is not None
    os.close(again)


def test_damaged_bytes_are_kept_as_they_were_and_counted(home: Path, folder: Folder) -> None:
    segment = a_segment(folder, number=1, payloads=[b"some", b"bytes"])
    data = segment.path.read_bytes()

    aside = folder.keep_aside(segment, start=3, end=9)

    assert aside.read_bytes() == data[3:9]
    assert read_spools(home)[0].damaged == 1
