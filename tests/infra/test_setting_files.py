from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from infra.setting_files import FilesKept, FilesNow, FilesOnce, SettingFile
from schemas.errors import ConfigError


@pytest.fixture
def secret(tmp_path: Path) -> Path:
    path = tmp_path / "secret"
    path.touch(mode=0o600)
    path.write_bytes(b"as it was")
    return path


def test_a_file_is_read_with_its_mode(secret: Path) -> None:
    assert FilesNow().read(secret) == SettingFile(0o600, b"as it was")


def test_what_was_read_once_stays_as_it_was(secret: Path) -> None:
    files = FilesOnce()
    files.read(secret)

    secret.write_bytes(b"edited")
    secret.chmod(0o644)

    assert files.read(secret) == SettingFile(0o600, b"as it was")


def test_what_is_kept_is_taken_by_every_child_and_nothing_else_is(secret: Path) -> None:
    files = FilesOnce()
    files.read(secret)
    (secret.parent / "other").write_bytes(b"not looked at")

    descriptor = files.keep("settings")
    secret.unlink()
    taken = [FilesKept.take(os.dup(descriptor)) for _ in range(2)]
    os.close(descriptor)

    assert [kept.read(secret) for kept in taken] == [SettingFile(0o600, b"as it was")] * 2
    with pytest.raises(ConfigError, match="other is not among the files that were kept"):
        taken[0].read(secret.parent / "other")


def test_a_path_and_bytes_that_are_no_text_are_kept(tmp_path: Path) -> None:
    path = tmp_path / os.fsdecode(b"\xff")
    path.write_bytes(bytes(range(256)))
    files = FilesOnce()
    files.read(path)

    assert FilesKept.take(files.keep("settings")).read(path).content == bytes(range(256))


def test_what_is_kept_is_shown_by_no_repr(secret: Path) -> None:
    files = FilesOnce()
    files.read(secret)

    kept = FilesKept.take(files.keep("settings"))

    assert [shown for shown in (repr(files), repr(kept), repr(kept.read(secret))) if "as it was" in shown] == []


@pytest.mark.parametrize("content", [b"", b"log: {}\n", b"[]", json.dumps({"/a": [1]}).encode(), json.dumps({"/a": [384, 5]}).encode()])
def test_a_descriptor_that_holds_something_else_is_refused(content: bytes) -> None:
    descriptor = os.memfd_create("settings")
    os.write(descriptor, content)

    with pytest.raises(ConfigError, match="holds no settings that a parent kept"):
        FilesKept.take(descriptor)
