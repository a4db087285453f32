from __future__ import annotations

from pathlib import Path

import pytest

from analytics.ownership import LOCK_NAME, own
from schemas.errors import ConfigError, NotTheArchive


def test_tables_have_one_owner_at_a_time(tmp_path: Path) -> None:
    with own(tmp_path / "lake"), pytest.raises(NotTheArchive, match="belongs to a running archive"):
        own(tmp_path / "lake")

    own(tmp_path / "lake").close()


def test_a_path_that_can_be_no_directory_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "odd" / LOCK_NAME).mkdir(parents=True)

    for lake in (tmp_path / "file", tmp_path / "file" / "lake", Path("/proc/nope/lake"), tmp_path / "odd"):
        with pytest.raises(
            ConfigError, match=rf"archive\.path: {lake} cannot be a directory of ours \(.*\), so no event could be archived"
        ):
            own(lake)
