from __future__ import annotations

from pathlib import Path

import pytest

from analytics.versions import History, oldest_to_keep, read_history, remove_below

HISTORY = History(made_ms={version: 1000 * version for version in range(101)}, checkpoints=(0, 50, 100))


@pytest.mark.parametrize(
    ("versions", "since_ms", "told_at", "keep"),
    [
        pytest.param(1000, 0, 100, 0, id="few and young"),
        pytest.param(51, 0, 100, 50, id="too many"),
        pytest.param(52, 0, 100, 0, id="one fewer: the checkpoint is needed for the oldest"),
        pytest.param(1000, 50_000, 100, 50, id="too old"),
        pytest.param(1, 0, 100, 100, id="nearly all"),
        pytest.param(1, 0, 99, 50, id="not the archive's positions"),
        pytest.param(1, 0, 0, 0, id="no positions known"),
    ],
)
def test_what_is_kept_begins_with_a_checkpoint(versions: int, since_ms: int, told_at: int, keep: int) -> None:
    assert oldest_to_keep(HISTORY, versions=versions, since_ms=since_ms, told_at=told_at) == keep


def test_removing_takes_everything_of_older_versions_and_nothing_else(tmp_path: Path) -> None:
    log = tmp_path / "_delta_log"
    log.mkdir()
    for version in range(4):
        for name in (f"{version:020}.json", f".{version:020}.json.crc", f"{version:020}.crc"):
            (log / name).touch()
    for name in (f"{2:020}.checkpoint.parquet", f"{0:020}.checkpoint.parquet", "_last_checkpoint"):
        (log / name).touch()

    assert read_history(tmp_path).checkpoints == (0, 2)
    assert remove_below(tmp_path, version=2) == 2

    assert sorted(read_history(tmp_path).made_ms) == [2, 3]
    assert read_history(tmp_path).checkpoints == (2,)
    assert len(list(log.iterdir())) == 2 * 3 + 1 + 1
    assert remove_below(tmp_path, version=2) == 0
