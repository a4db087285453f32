"""What is taken from the log beneath the archive is counted to the unit, and the books balance afterwards."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from analytics.archive import Archive
from analytics.commits import Commit
from analytics.settings import ArchiveSettings
from infra.acknowledged import Acknowledged
from infra.clock import Clock
from infra.running.embedded import EmbeddedServer
from infra.settings import LogSettings
from infra.spools import Folder
from infra.streams.connection import open_blocking
from infra.streams.keys import Keys
from infra.streams.overview import read_overview
from schemas.event import StreamEvent
from schemas.receipt import Receipt
from tests.analytics.conftest import OpenArchive, append
from tests.events import an_event

CAP = ArchiveSettings(max_batch_entries=5)


@dataclass
class World:
    """A log with one stream in use, whose server may be restarted, and its archive."""

    server: EmbeddedServer
    log: LogSettings
    home: Path
    archive: Archive
    last: Commit

    @property
    def stream(self) -> str:
        return Keys(self.log.prefix, 1).events(0, "default")

    def append(self, count: int) -> list[Receipt]:
        return self.append_these(*(an_event() for _ in range(count)))

    def append_these(self, *events: StreamEvent) -> list[Receipt]:
        return append(self.log, self.home, *events)

    def call(self, *command: str) -> Any:
        with open_blocking(self.log, home=self.home) as client:
            return client.execute_command(*command)

    def restart(self) -> None:
        self.server.kill()
        self.server.start()

    def drain(self) -> None:
        for _ in range(20):
            committed = self.archive.run_batch(self.last)
            if committed is self.last:
                return
            self.last = committed
        raise AssertionError("the archive does not come to rest")

    def books(self) -> tuple[int, int, int]:
        """Rows, losses, and what does not add up."""
        found = read_overview(self.log, home=self.home)
        return found.archived_rows or 0, found.lost, found.out_of_balance


@pytest.fixture
def open_world(open_archive: OpenArchive, own_server: EmbeddedServer, home: Path) -> Any:
    def open_one(settings: ArchiveSettings = ArchiveSettings()) -> World:  # noqa: B008 - frozen
        log = LogSettings(url=own_server.url, shards=1)
        archive = open_archive(log, settings)
        return World(own_server, log, home, archive, archive.start())

    return open_one


@pytest.fixture
def world(open_world: Any) -> World:
    found: World = open_world()
    return found


def test_the_last_entries_of_an_incarnation_that_was_just_begun(world: World) -> None:
    world.append(1)
    world.drain()
    world.restart()
    receipts = world.append(10)
    world.call("XDEL", world.stream, *(receipt.entry_id for receipt in receipts[5:]))

    world.drain()

    assert world.books() == (6, 5, 0)


def test_entries_that_were_trimmed_before_the_log_was_restarted(world: World) -> None:
    world.append(5)
    world.drain()
    world.append(7)
    world.call("XTRIM", world.stream, "MAXLEN", "0")
    world.restart()
    world.append(1)

    world.drain()

    assert world.books() == (6, 7, 0)


def test_the_first_entries_of_an_incarnation_that_the_archive_never_met(world: World) -> None:
    world.append(1)
    world.drain()
    world.restart()
    receipts = world.append(6)
    world.call("XDEL", world.stream, *(receipt.entry_id for receipt in receipts[:3]))
    world.restart()
    world.append(1)

    world.drain()

    assert world.books() == (5, 3, 0)


def test_a_gap_behind_the_place_where_a_reread_is_cut(open_world: Any) -> None:
    world: World = open_world(CAP)
    world.call("XGROUP", "CREATE", world.stream, "slow", "0", "MKSTREAM")
    world.append(5)
    world.drain()
    receipts = world.append(6)
    world.call("XDEL", world.stream, *(receipt.entry_id for receipt in receipts[:3]))
    world.restart()
    world.append(1)

    world.drain()

    assert world.books() == (9, 3, 0)


def test_a_stream_that_is_deleted_while_nothing_arrives(world: World) -> None:
    world.append(1)
    world.drain()
    world.append(4)
    world.call("DEL", world.stream)

    world.drain()

    assert world.books() == (1, 4, 0)


def test_a_backlog_that_is_emptied_before_it_is_read(open_world: Any) -> None:
    world: World = open_world(CAP)
    world.append(8)
    world.drain()
    world.append(8)
    world.call("XTRIM", world.stream, "MAXLEN", "0")
    world.drain()
    world.append(1)

    world.drain()

    assert world.books() == (9, 8, 0)


def test_foreign_entries_are_neither_losses_nor_accepted(open_world: Any) -> None:
    world: World = open_world(CAP)
    world.append(4)
    world.call("XADD", world.stream, "*", "foreign", "x")
    world.append(3)
    assert world.books() == (0, 0, 0)

    world.drain()

    assert world.books() == (8, 0, 0)
    assert world.last.totals.foreign == 1


def test_a_group_that_vanished_comes_back_where_the_table_ends(world: World) -> None:
    world.call("XGROUP", "CREATE", world.stream, "slow", "0", "MKSTREAM")
    receipts = world.append(5)
    world.drain()
    world.call("XGROUP", "DESTROY", world.stream, "archive")

    world.drain()

    with open_blocking(world.log, home=world.home) as client:
        places: dict[bytes, bytes] = {group["name"]: group["last-delivered-id"] for group in client.xinfo_groups(world.stream)}
    assert places[b"archive"].decode() == receipts[-1].entry_id


def test_a_log_that_was_flushed_is_counted_as_far_as_it_was_seen_and_repeats_have_no_second_row(open_world: Any) -> None:
    world: World = open_world(CAP)
    repeated = an_event()
    world.append_these(repeated)
    world.append(11)
    world.last = world.archive.run_batch(world.last)
    assert world.last.rows == 5
    world.call("FLUSHALL")

    world.drain()
    assert world.books() == (5, 7, 0)

    world.append(1)
    (receipt,) = world.append_these(an_event(delivery_id=repeated.delivery_id))
    world.drain()

    assert not receipt.duplicate
    assert world.books() == (6, 7, 0)
    assert world.last.totals.repeated == 1
    rows = world.archive.table.dataframe().where(f"delivery_id = '{repeated.delivery_id}'").count()
    assert rows == 1


@pytest.mark.parametrize("far", ["99999999999999999-0", "18446744073709551000-0"])
def test_a_foreign_entry_with_a_far_away_id_stops_nothing(world: World, far: str) -> None:
    world.append(1)
    world.call("XADD", world.stream, far, "foreign", "x")
    world.drain()
    world.append(1)

    world.drain()

    assert world.books() == (3, 0, 0)


def test_a_delivery_that_was_accepted_again_after_the_window_is_taken_off_when_it_is_left_out(world: World) -> None:
    event = an_event()
    world.append_these(event)
    world.drain()
    with open_blocking(world.log, home=world.home) as client:
        client.delete(*client.keys("*seen*"))
    world.append_these(an_event(delivery_id=event.delivery_id))
    world.restart()

    world.drain()
    assert world.books() == (1, 0, 0)

    world.restart()
    world.append(1)
    world.drain()
    assert world.books() == (2, 0, 0)


@pytest.mark.parametrize(
    ("is_noted", "lost"),
    [
        pytest.param(True, 2, id="noted", marks=pytest.mark.fault("B3")),
        pytest.param(False, 0, id="control", marks=pytest.mark.control("B3")),
    ],
)
def test_what_a_truncated_file_of_the_log_took_away_is_counted_by_what_receivers_noted(world: World, is_noted: bool, lost: int) -> None:
    world.append(3)
    world.drain()
    (file,) = (world.server.directory / "appendonlydir").glob("*.incr.aof")
    world.append(2)
    before = file.stat().st_size
    receipts = world.append(2)
    world.server.kill()
    os.truncate(file, before)
    world.server.start()
    if is_noted:
        note(receipts[-1], home=world.home)

    world.append(1)
    world.drain()

    assert world.books() == (6, lost, 0)


def note(receipt: Receipt, *, home: Path) -> None:
    folder = Folder(home / "spool" / "receiver-0")
    folder.path.mkdir(parents=True)
    life = (receipt.shard, receipt.stream, receipt.incarnation)
    Acknowledged({life: (receipt.sequence, Clock().now_ms())}).write(folder)
