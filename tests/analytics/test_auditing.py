"""An audit finds what should never be: each kind of damage is done by hand, and found."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from delta.tables import DeltaTable
from pyspark.sql import SparkSession

from analytics import audit as command
from analytics import versions
from analytics.audit import audit, check_files
from analytics.auditing import Findings, gaps, without
from analytics.chains import Chains
from analytics.erase_selection import Selection
from analytics.erasing import erase_rows
from analytics.scrub import Scrubbed
from analytics.settings import ArchiveSettings
from infra.settings import LogSettings, Settings, SettingsFile
from tests.analytics.conftest import OpenChains, append
from tests.events import an_event


def test_gaps_are_the_numbers_in_between() -> None:
    assert gaps([2, 3, 6], first=1, last=8) == [(1, 1), (4, 5), (7, 8)]
    assert gaps([1, 2], first=1, last=2) == []


@pytest.mark.parametrize(
    ("others", "left"),
    [
        ([], [(1, 5), (8, 9)]),
        ([(2, 3)], [(1, 1), (4, 5), (8, 9)]),
        ([(4, 8)], [(1, 3), (9, 9)]),
        ([(9, 20), (1, 1), (3, 3)], [(2, 2), (4, 5), (8, 8)]),
        ([(0, 100)], []),
    ],
)
def test_what_was_erased_is_no_gap(others: list[tuple[int, int]], left: list[tuple[int, int]]) -> None:
    assert without([(1, 5), (8, 9)], others) == left


@dataclass
class Audited:
    """An archive with ten events, and its audit."""

    spark: SparkSession
    settings: Settings
    chains: Chains

    @property
    def location(self) -> str:
        return self.chains.events.open().table.location

    def wrong(self, **asked: object) -> dict[str, int]:
        found = audit(self.spark, settings=self.settings, signatures=False, **asked)  # type: ignore[arg-type]
        return {name: count for name, count in found.wrong.items() if count}

    def change(self, change: Callable[[DeltaTable], object]) -> None:
        change(DeltaTable.forPath(self.spark, self.location))


@pytest.fixture
def audited(spark: SparkSession, log: LogSettings, home: Path, open_chains: OpenChains) -> Audited:
    append(log, home, *(an_event() for _ in range(10)))
    file = SettingsFile(log={"url": log.url, "prefix": log.prefix})
    return Audited(spark, Settings(home, file), open_chains())


def test_a_healthy_table_has_nothing_wrong_and_each_damage_is_found(audited: Audited) -> None:
    assert audited.wrong() == {}
    ids = sorted(row.id for row in audited.chains.events.open().table.dataframe().select("id").collect())

    audited.change(lambda table: table.update(f"id = '{ids[0]}'", {"body": "CAST('x' AS BINARY)"}))
    assert audited.wrong() == {"bodies_that_differ": 1}

    copy = audited.chains.events.open().table.dataframe().where(f"id = '{ids[1]}'")
    copy.write.format("delta").mode("append").save(audited.location)
    assert audited.wrong() == {"bodies_that_differ": 1, "ids_that_occur_twice": 1, "deliveries_that_occur_twice": 1}

    later = datetime.now(UTC) + timedelta(hours=1)
    assert audited.wrong(since=later) == {}


def in_between(audited: Audited) -> str:
    """The condition for an event whose neighbours have rows: of ten events in four shards three share one."""
    of = audited.chains.events.open().table.dataframe().groupBy("stream").count().where("count >= 3").first()
    assert of is not None
    return f"stream = '{of.stream}' AND sequence = 2"


def test_a_number_without_a_row_is_found(audited: Audited) -> None:
    audited.change(lambda table: table.delete(in_between(audited)))

    assert audited.wrong() == {"numbers_without_a_row": 1}


def test_an_event_that_was_off_the_log_when_it_was_erased_is_no_gap(audited: Audited) -> None:
    """No group has to settle it, so it left the log when it was archived, and nobody wrote its number down."""
    events = audited.chains.events

    erase_rows(events, selection=Selection(where=in_between(audited)), events=events.open().table.dataframe())

    assert audited.wrong() == {}


def flip(path: Path, *, at: int) -> Callable[[], object]:
    """Flips one bit of a file; returns what puts it back."""
    content = path.read_bytes()
    path.write_bytes(content[:at] + bytes([content[at] ^ 1]) + content[at + 1 :])
    return lambda: path.write_bytes(content)


def damaged_files(audited: Audited) -> list[str]:
    findings = Findings()
    check_files(audited.spark, settings=audited.settings, section=ArchiveSettings(), findings=findings)
    return findings.named.get("files_that_are_damaged", [])


@pytest.mark.fault("E19")
def test_one_flipped_bit_of_any_file_is_noticed(audited: Audited) -> None:
    versions.write_checkpoint(audited.spark, location=audited.location)
    table = Path(audited.location)
    files = [next(table.rglob("part-*.parquet")), *sorted((table / "_delta_log").glob("*.json")), next(table.rglob("*.checkpoint.parquet"))]
    assert damaged_files(audited) == []

    for path in files:
        for at in (0, path.stat().st_size // 2, path.stat().st_size - 1):
            put_back = flip(path, at=at)
            assert damaged_files(audited) == [f"events/{path.relative_to(table).as_posix()}"], (path, at)
            put_back()


@pytest.mark.control("E19")
def test_without_the_checksums_a_flipped_bit_stays_unnoticed(audited: Audited, monkeypatch: pytest.MonkeyPatch) -> None:
    path = sorted((Path(audited.location) / "_delta_log").glob("*.json"))[-1]
    flip(path, at=path.read_bytes().index(b"Apache-Spark"))
    (path.with_name(f".{path.name}.crc")).unlink()
    monkeypatch.setattr(command, "scrub", lambda *_, **__: Scrubbed())

    assert audited.wrong() == {}
