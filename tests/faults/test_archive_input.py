"""A log that hangs, dies or is trimmed in the middle of a batch, a backlog, and entries made to break one."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from analytics import archive as archives
from analytics import event_rows
from analytics.caps import Caps, Failures
from analytics.commits import Commit
from analytics.feeds import FEEDS
from analytics.settings import ArchiveSettings
from infra.running.embedded import EmbeddedServer
from infra.streams.entries import Entry, encode
from schemas.errors import StreamUnavailable, TableUnavailable
from tests.events import an_event
from tests.faults.archive_world import ArchiveWorld, at_step
from tests.ports import free_port

Breaks = Callable[[pytest.MonkeyPatch], object]


def nothing(_: pytest.MonkeyPatch) -> None:
    """The archive as it is."""


@pytest.fixture
def server(tmp_path: Path) -> Iterator[EmbeddedServer]:
    found = EmbeddedServer(tmp_path / "log", free_port(), password="a-test-password")
    found.start()
    yield found
    found.stop()


@pytest.fixture
def world(spark: SparkSession, server: EmbeddedServer, tmp_path: Path) -> Iterator[ArchiveWorld]:
    found = ArchiveWorld(spark, server, tmp_path / "home")
    yield found
    found.close()


def hang(server: EmbeddedServer) -> None:
    """For longer than the archive waits for an answer."""
    os.kill(server.pid, signal.SIGSTOP)
    threading.Timer(3, os.kill, (server.pid, signal.SIGCONT)).start()


def restart(server: EmbeddedServer) -> None:
    server.kill()
    threading.Timer(1, server.start).start()


def commits_what_was_planned(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whether all that was planned was read is not looked at."""
    monkeypatch.setattr(Commit, "missing", property(lambda commit: commit.lost))


@pytest.mark.parametrize(
    ("breaks", "is_faithful"),
    [
        pytest.param(nothing, True, id="real", marks=pytest.mark.fault("E13")),
        pytest.param(commits_what_was_planned, False, id="control", marks=pytest.mark.control("E13")),
    ],
)
def test_a_log_that_hangs_dies_or_is_trimmed_in_mid_batch_loses_nothing_unsaid(
    world: ArchiveWorld, server: EmbeddedServer, monkeypatch: pytest.MonkeyPatch, breaks: Breaks, is_faithful: bool
) -> None:
    breaks(monkeypatch)
    archive = world.open()
    last = archive.start()
    for harm in (hang, restart) if is_faithful else ():
        world.append(5)
        with at_step("archive.before_commit", lambda harm=harm: harm(server)):  # type: ignore[misc]
            last = until_drained(world, archive, last=last)
        assert (world.faults(), last.totals.lost) == ([], 0)

    world.append(5)
    stream = world.keys.events(0, "default")
    with at_step("archive.planned", lambda: world.call("XTRIM", stream, "MAXLEN", "2")):
        last = world.drain(archive, last=last)

    assert (last.totals.lost == 3) is is_faithful


def until_drained(world: ArchiveWorld, archive: archives.Archive, *, last: Commit) -> Commit:
    """As the loop of the process does: what is unavailable is tried again."""
    for _ in range(30):
        with contextlib.suppress(StreamUnavailable, TableUnavailable):
            return world.drain(archive, last=last)
        threading.Event().wait(0.5)
    raise AssertionError("the log did not come back")


def takes_everything(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Failures, "caps", lambda _failures, _settings: Caps(10**9, 10**12))


@pytest.mark.parametrize(
    ("breaks", "is_faithful"),
    [
        pytest.param(nothing, True, id="real", marks=pytest.mark.fault("E12")),
        pytest.param(takes_everything, False, id="control", marks=pytest.mark.control("E12")),
    ],
)
def test_a_backlog_is_drained_in_batches_that_keep_to_the_cap(
    world: ArchiveWorld, monkeypatch: pytest.MonkeyPatch, times: int, breaks: Breaks, is_faithful: bool
) -> None:
    count = 200 if times == 1 else 50_000
    breaks(monkeypatch)
    world.settings = ArchiveSettings(max_batch_entries=count // 2)
    for _ in range(count // 100):
        world.append(100)
    archive, sizes = world.open(), []
    last = archive.start()
    while (committed := archive.run_batch(last)) is not last:
        sizes.append(committed.rows)
        last = committed

    assert world.faults() == []
    assert (max(sizes) <= count // 2) is is_faithful


POISON = [
    b"", b"\x00", b"\xff\xfe\xfd", b'{"a": "\\ud800"}', b'{"a": "\xed\xa0\x80"}', b"[" * 10_000, b"[" * 10_000 + b"]" * 10_000,
    b"9" * 5_000, b'{"a": 1e999999}', b'{"a": 18446744073709551616}', b'{"a":1,"a":2}', b"NaN", b'\xef\xbb\xbf{"bom": 1}',
    '{"utf": 16}'.encode("utf-16"), b'{"\\u0000": "\\u0000"}', b'{"":{"":{"":[]}}}', b'"' + b"x" * 1_000_000 + b'"',
]  # fmt: skip
LARGE_BYTES = 64 * 1024 * 1024


def parses_or_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    feed = FEEDS["events"]

    def strict(raw: DataFrame, **others: Any) -> DataFrame:
        rows = feed.to_rows(raw, **others)
        return rows.withColumn("payload", F.parse_json(F.col("body").cast("string")))

    monkeypatch.setitem(FEEDS, "events", replace(feed, to_rows=strict))


@pytest.mark.parametrize(
    ("breaks", "is_faithful"),
    [
        pytest.param(nothing, True, id="real", marks=pytest.mark.fault("E14")),
        pytest.param(parses_or_fails, False, id="control", marks=pytest.mark.control("E14")),
    ],
)
@pytest.mark.timeout(300)
def test_a_body_made_to_break_a_batch_is_stored_byte_for_byte(
    world: ArchiveWorld, monkeypatch: pytest.MonkeyPatch, times: int, breaks: Breaks, is_faithful: bool
) -> None:
    breaks(monkeypatch)
    bodies = [*POISON, *([b'{"x": "' + b"y" * LARGE_BYTES + b'"}'] if times > 1 else [])]
    for body in bodies:
        world.append_these(an_event(payload=body))

    with contextlib.suppress(TableUnavailable):
        world.drain()

    assert (world.faults() == []) is is_faithful


FAR_AWAY = (b"253402300799000", b"99999999999999", b"-5", b"9" * 30)
EVIL = (b"../../../etc", b"a=b", b"%2F", b"received_date=2026-01-01", b"x" * 300, b"\xff")


def evil_entries() -> list[Entry]:
    changes = [{b"timestamp": time} for time in FAR_AWAY] + [{b"tenant_id": name, b"source": name, b"priority": name} for name in EVIL]
    placed = [an_entry(f"{1_700_000_000_000 + number}-0", changed) for number, changed in enumerate(changes)]
    return [*placed, an_entry("18446744073709551000-0", {b"timestamp": b"soon"})]


def an_entry(entry_id: str, changed: dict[bytes, bytes]) -> Entry:
    flat = [value if isinstance(value, bytes) else str(value).encode() for value in encode(an_event())]
    fields = {**dict(zip(flat[::2], flat[1::2], strict=True)), b"incarnation": b"a", b"sequence": b"1", b"conflict": b"0"}
    return Entry(entry_id, fields | changed)


def believes_every_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(event_rows, "LATEST_MS", 10**18)


@pytest.mark.parametrize(
    ("breaks", "is_faithful"),
    [
        pytest.param(nothing, True, id="real", marks=pytest.mark.fault("E15")),
        pytest.param(believes_every_clock, False, id="control", marks=pytest.mark.control("E15")),
    ],
)
def test_names_and_clocks_made_to_break_the_layout_make_no_partitions_of_their_own(
    monkeypatch: pytest.MonkeyPatch, breaks: Breaks, is_faithful: bool
) -> None:
    breaks(monkeypatch)
    entries = evil_entries()

    rows = [row for batch in event_rows.record_batches(entries, stream="0:default") for row in batch.to_pylist()]

    assert len(rows) == len(entries)
    latest = datetime(2100, 1, 1, tzinfo=UTC).timestamp() * 1000
    assert all(0 <= row["timestamp"] < latest for row in rows) is is_faithful


@pytest.mark.fault("E15")
def test_the_table_has_a_folder_for_each_day_and_no_other(world: ArchiveWorld) -> None:
    world.append(2)
    for entry in evil_entries():
        world.call("XADD", world.keys.events(0, "default"), "*", *(part for pair in entry.fields.items() for part in pair))

    last = world.drain()

    folders = {path.name for path in world.table.iterdir() if path.is_dir() and not path.name.startswith("_")}
    assert last.totals.rows == 2 + len(evil_entries())
    assert all(re.fullmatch(r"received_date=20\d\d-\d\d-\d\d", name) for name in folders)
    assert len(folders) <= 3
