"""Numbers that the log gave are written down outside it: the highest of each incarnation, over all processes that held the folder."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from infra.acknowledged import Acknowledged, highest_acknowledged
from infra.clock import Clock
from infra.spools import Folder
from infra.telemetry import Telemetry
from ingest.noting import KEPT_MS, Noting, added


@pytest.fixture
def folder(home: Path) -> Folder:
    path = home / "spool" / "receiver-0"
    path.mkdir(parents=True)
    return Folder(path)


def note(noting: Noting, number: int, *, incarnation: str = "a") -> None:
    noting.note({("demo", "github"): 1}, highest={(2, "default", incarnation): number})


async def test_the_highest_numbers_and_the_counts_outlive_the_process(home: Path, folder: Folder, telemetry: Telemetry) -> None:
    for numbers in ([3, 5, 4], [2]):
        noting = Noting(folder, clock=Clock(), telemetry=telemetry)
        async with noting.running():
            for number in numbers:
                note(noting, number)
            note(noting, 1, incarnation="b")

    assert highest_acknowledged(home, since_ms=0) == {(2, "default", "a"): 5, (2, "default", "b"): 1}
    assert Acknowledged.read(folder).accepted == {"demo:github": 6}
    assert highest_acknowledged(home, since_ms=2 * Clock().now_ms()) == {}


async def test_what_could_not_be_written_is_written_with_what_comes_next(home: Path, folder: Folder, telemetry: Telemetry) -> None:
    noting = Noting(folder, clock=Clock(), telemetry=telemetry)
    note(noting, 7)
    (folder.path / "acknowledged.new").mkdir()
    with pytest.raises(OSError, match="directory"):
        await noting.write()
    (folder.path / "acknowledged.new").rmdir()

    note(noting, 6)
    await noting.write()

    assert highest_acknowledged(home, since_ms=0) == {(2, "default", "a"): 7}
    assert Acknowledged.read(folder).accepted == {"demo:github": 2}


async def test_a_lower_number_that_comes_while_a_write_fails_does_not_stand_for_a_higher_one(
    home: Path, folder: Folder, telemetry: Telemetry
) -> None:
    noting = Noting(folder, clock=Clock(), telemetry=telemetry)
    note(noting, 7)
    (folder.path / "acknowledged.new").mkdir()
    writing = asyncio.create_task(noting.write())
    await asyncio.sleep(0)
    note(noting, 6)
    with pytest.raises(OSError, match="directory"):
        await writing
    (folder.path / "acknowledged.new").rmdir()

    await noting.write()

    assert highest_acknowledged(home, since_ms=0) == {(2, "default", "a"): 7}


def test_incarnations_that_are_long_past_are_forgotten() -> None:
    old = Acknowledged({(0, "default", "old"): (9, 1), (0, "default", "new"): (3, KEPT_MS)}, {})

    books = added(old, highest={(0, "default", "new"): 2}, accepted={}, now_ms=KEPT_MS + 2)

    assert books.highest == {(0, "default", "new"): (3, KEPT_MS + 2)}


def test_notes_that_make_no_sense_are_no_notes(folder: Folder) -> None:
    for content in (b"", b"[]", b'{"highest": {"x": [1, 2]}, "accepted": {}}'):
        (folder.path / "acknowledged").write_bytes(content)
        assert Acknowledged.read(folder) == Acknowledged()
