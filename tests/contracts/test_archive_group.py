"""The archive reads fixed ranges, and its group only follows what is synced: never backwards, never a past incarnation."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from infra.running.embedded import EmbeddedServer
from infra.settings import LogSettings
from infra.streams.keys import ARCHIVED_STREAMS, Keys
from infra.streams.positions import Position, StreamName
from infra.streams.ranges import ArchiveLog
from infra.streams.stream import EventStream
from tests.infra.streams.deliveries import append_ten
from tests.infra.streams.raw import lives_of, open_raw

STREAM = StreamName(0, "default")


@pytest.fixture
def log(log: LogSettings) -> LogSettings:
    return log.model_copy(update={"shards": 1})


async def test_the_archives_group_never_moves_backwards(stream: EventStream, archive_log: ArchiveLog, keys: Keys, client: Any) -> None:
    ids = await append_ten(stream)
    incarnation = archive_log.ends()[0].incarnation

    archive_log.move({STREAM: Position(incarnation, ids[6], 7)})
    archive_log.move({STREAM: Position(incarnation, ids[2], 3)})

    (group,) = client.xinfo_groups(keys.events(0, "default"))
    assert (group["last-delivered-id"].decode(), group["lag"]) == (ids[6], 3)
    assert client.hget(keys.ledger(0), f"archived:default:{incarnation}") == f"{ids[6]}|7".encode()


async def test_a_position_of_a_past_incarnation_does_not_move_the_group(
    stream: EventStream, archive_log: ArchiveLog, keys: Keys, client: Any
) -> None:
    ids = await append_ten(stream)
    archive_log.ends()

    archive_log.move({STREAM: Position("pastlife", ids[6], 7)})

    (group,) = client.xinfo_groups(keys.events(0, "default"))
    assert group["last-delivered-id"] == b"0-0"
    assert client.hget(keys.ledger(0), "archived:default:pastlife") == f"{ids[6]}|7".encode()


async def test_a_range_reads_the_same_entries_each_time(stream: EventStream, archive_log: ArchiveLog) -> None:
    ids = await append_ten(stream)

    for _ in range(2):
        assert [entry.id for chunk in archive_log.read(STREAM, after=ids[1], to=ids[7]) for entry in chunk] == ids[2:8]


def test_the_groups_lag_is_unknown_rather_than_wrong_among_entries_of_a_past_incarnation(
    archive_log: ArchiveLog, keys: Keys, client: Any
) -> None:
    ids = lives_of(client, keys, lives={"past": 10, "present": 5})
    archive_log.move({STREAM: Position("present", "0-0", 0)})

    lags = []
    for index, number in ((4, 0), (9, 0), (12, 3), (14, 5)):
        archive_log.move({STREAM: Position("present", ids[index], number)})
        (group,) = client.xinfo_groups(keys.events(0, "default"))
        lags.append(group["lag"])

    assert lags == [None, 5, 2, 0]


async def test_the_group_moves_up_to_an_entry_that_has_no_number(
    stream: EventStream, archive_log: ArchiveLog, keys: Keys, client: Any
) -> None:
    ids = await append_ten(stream)
    incarnation = archive_log.ends()[0].incarnation
    client.xadd(keys.events(0, "default"), {"foreign": "x"})

    archive_log.move({STREAM: Position(incarnation, ids[9], 10)})

    (group,) = client.xinfo_groups(keys.events(0, "default"))
    assert (group["last-delivered-id"].decode(), group["lag"]) == (ids[9], None)


async def test_a_group_that_stands_above_the_newest_entry_comes_back(
    stream: EventStream, archive_log: ArchiveLog, keys: Keys, client: Any
) -> None:
    ids = await append_ten(stream)
    incarnation = archive_log.ends()[0].incarnation
    client.xgroup_setid(keys.events(0, "default"), "archive", "9999999999999-0")  # it would read nothing for ever

    archive_log.move({STREAM: Position(incarnation, ids[3], 4)})

    (group,) = client.xinfo_groups(keys.events(0, "default"))
    assert (group["last-delivered-id"].decode(), group["lag"]) == (ids[3], 6)


@pytest.mark.parametrize("restarted", [False, True])
@pytest.mark.fault("B8")
async def test_the_archive_empties_a_log_whose_memory_is_full(
    own_server: EmbeddedServer, own_log: LogSettings, home: Path, restarted: bool
) -> None:
    stream = EventStream.open(own_log, home=home)
    await append_ten(stream)
    archive_log = ArchiveLog.open(own_log, home=home)
    archive_log.ends()
    if restarted:
        own_server.kill()
        own_server.start()
    client = open_raw(own_log, home=home)
    client.config_set("maxmemory", 1)

    archive_log.move({end.stream: end.last for end in archive_log.ends()})
    archive_log.note_totals({"rows:events": 10})

    assert archive_log.trim() == 10
    assert client.hget(Keys(own_log.prefix, 1).ledger(0), "rows:events") == b"10"
    client.close()
    archive_log.close()
    await stream.close()


def test_the_group_reads_what_is_recorded_beside_events_too(archive_log: ArchiveLog, keys: Keys, client: Any) -> None:
    ends = archive_log.ends()

    assert [end.stream.name for end in ends] == list(ARCHIVED_STREAMS)
    for stream in keys.archived_streams(0):
        assert [group["name"] for group in client.xinfo_groups(stream)] == [b"archive"]


@pytest.mark.fault("D11")
async def test_a_key_of_records_that_is_no_stream_keeps_no_event_from_being_archived(
    stream: EventStream, archive_log: ArchiveLog, keys: Keys, client: Any
) -> None:
    ids = await append_ten(stream)
    client.set(keys.outcomes(0), "a string")

    ends = {end.stream.name: end.last for end in archive_log.ends()}

    assert (ends["default"].entry_id, ends["default"].sequence) == (ids[9], 10)
    assert ends["outcomes"].sequence == 0
    archive_log.move({STREAM: ends["default"]})
    assert client.xinfo_groups(keys.events(0, "default"))[0]["last-delivered-id"].decode() == ids[9]
