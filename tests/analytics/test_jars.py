from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from analytics.jars import SHA256, accept, damaged_jars, install_jars, jar_directory
from schemas.errors import Unavailable


@pytest.fixture
def jars(tmp_path: Path) -> Path:
    """A copy of the installed jars that a test may damage."""
    install_jars(jar_directory())
    return Path(shutil.copytree(jar_directory(), tmp_path / "jars"))


def test_jars_that_are_there_and_right_are_not_touched(jars: Path) -> None:
    before = {path: path.stat().st_ino for path in jars.iterdir()}

    assert [path.name for path in install_jars(jars)] == list(SHA256)

    assert {path: path.stat().st_ino for path in jars.iterdir()} == before


def test_a_jar_with_one_changed_byte_counts_as_damaged(jars: Path) -> None:
    damaged = jars / next(iter(SHA256))
    content = bytearray(damaged.read_bytes())
    content[1000] ^= 1
    damaged.write_bytes(content)

    assert damaged_jars(jars) == [damaged.name]


def test_a_fetched_jar_that_is_not_what_was_pinned_is_not_installed(jars: Path, tmp_path: Path) -> None:
    (jars / next(iter(SHA256))).write_bytes(b"something else")
    directory = tmp_path / "installed"
    directory.mkdir()

    with pytest.raises(Unavailable, match="not what was pinned"):
        accept(jars, directory=directory)

    assert list(directory.iterdir()) == []


def test_a_place_that_cannot_be_written_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "file").touch()

    with pytest.raises(Unavailable, match="cannot be stored"):
        install_jars(tmp_path / "file" / "jars")
