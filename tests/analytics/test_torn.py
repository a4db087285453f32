"""What a power cut between Delta's commit and our sync leaves: never trusted, never lost."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from analytics.archive import Archive
from analytics.delta_log import DeltaLog
from analytics.torn import DIRECTORY, newest_version, why_torn
from infra.settings import LogSettings
from schemas.errors import TornTable
from tests.analytics.conftest import OpenArchive, append
from tests.events import an_event


def empty_the_data(table: Path) -> None:
    for path in added_by_the_newest(table):
        path.write_bytes(b"")
        path.with_name(f".{path.name}.crc").unlink(missing_ok=True)


def remove_the_data(table: Path) -> None:
    for path in added_by_the_newest(table):
        path.unlink()


def tear_the_entry(table: Path) -> None:
    entry = newest_entry(table)
    entry.write_bytes(entry.read_bytes()[: entry.stat().st_size // 2])
    entry.with_name(f".{entry.name}.crc").unlink(missing_ok=True)


def drop_the_last_line(table: Path) -> None:
    entry = newest_entry(table)
    entry.write_bytes(b"".join(entry.read_bytes().splitlines(keepends=True)[:-1]))
    entry.with_name(f".{entry.name}.crc").unlink(missing_ok=True)


def empty_the_entry(table: Path) -> None:
    newest_entry(table).write_bytes(b"")


def newest_entry(table: Path) -> Path:
    return table / "_delta_log" / f"{newest_version(table):020}.json"


def added_by_the_newest(table: Path) -> list[Path]:
    lines = newest_entry(table).read_text().splitlines()
    return [table / json.loads(line)["add"]["path"] for line in lines if line.startswith('{"add"')]


class PowerCut(Exception):
    pass


def commit_without_sync(archive: Archive, monkeypatch: pytest.MonkeyPatch, *, last: object) -> None:
    def cut(*_: object) -> None:
        raise PowerCut

    with monkeypatch.context() as cutting:
        cutting.setattr(DeltaLog, "sync", cut)
        with pytest.raises(PowerCut):
            archive.run_batch(last)  # type: ignore[arg-type]


@pytest.mark.fault("E6")
@pytest.mark.parametrize("damage", [empty_the_data, remove_the_data, tear_the_entry, drop_the_last_line, empty_the_entry])
def test_a_commit_that_did_not_reach_the_disk_is_set_aside_and_its_events_are_read_again(
    open_archive: OpenArchive, log: LogSettings, home: Path, monkeypatch: pytest.MonkeyPatch, damage: Callable[[Path], None]
) -> None:
    append(log, home, an_event(payload=b"synced"))
    archive = open_archive()
    last = archive.run_batch(archive.start())
    append(log, home, an_event(payload=b"cut"))
    commit_without_sync(archive, monkeypatch, last=last)
    table = Path(archive.table.location)
    damage(table)

    again = open_archive()
    committed = again.run_batch(again.start())

    assert (committed.totals.rows, committed.totals.lost) == (2, 0)
    assert sorted(bytes(row.body) for row in again.table.dataframe().select("body").collect()) == [b"cut", b"synced"]
    assert len(again.table.set_aside) == 1
    assert [path.name for path in (table / DIRECTORY).glob("*/*.json")] == [f"{2:020}.json"]


def test_a_commit_that_reached_the_disk_is_trusted(open_archive: OpenArchive, log: LogSettings, home: Path) -> None:
    append(log, home, an_event())
    archive = open_archive()
    archive.run_batch(archive.start())
    table = Path(archive.table.location)

    assert [why_torn(table, version=version) for version in (0, 1)] == ["", ""]
    assert open_archive().table.set_aside == []


def test_a_damaged_commit_that_the_group_has_moved_past_is_left_to_a_person(
    open_archive: OpenArchive, log: LogSettings, home: Path
) -> None:
    append(log, home, an_event())
    archive = open_archive()
    archive.run_batch(archive.start())
    remove_the_data(Path(archive.table.location))

    with pytest.raises(TornTable, match="restore the table's files"):
        open_archive()

    assert newest_version(Path(archive.table.location)) == 1


def test_a_directory_without_a_table_has_no_version(tmp_path: Path) -> None:
    assert newest_version(tmp_path) is None
