from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from infra.settings import LogSettings
from infra.streams.entries import Entry
from infra.streams.keys import Keys
from infra.streams.positions import Position, StreamName
from infra.streams.ranges import MOST_COUNT, REPLY_BYTES, ArchiveLog, next_count
from infra.streams.stream import EventStream
from schemas.errors import ConfigError
from tests.events import an_event
from tests.infra.streams.raw import lives_of

STREAM = StreamName(0, "default")


@pytest.fixture
def log(log: LogSettings) -> LogSettings:
    return log.model_copy(update={"shards": 1})


def test_replies_grow_with_small_entries_and_shrink_with_large_ones(archive_log: ArchiveLog, keys: Keys, client: Any) -> None:
    for number, size in enumerate([10] * 100 + [REPLY_BYTES // 2] * 6 + [10] * 3):
        client.xadd(keys.events(0, "default"), {"payload": b"x" * size}, id=f"{number + 1}-0")

    chunks = [[len(entry.fields[b"payload"]) for entry in chunk] for chunk in archive_log.read(STREAM, after="0-0", to="200-0")]

    assert [len(chunk) for chunk in chunks[:3]] == [8, 16, 32]
    assert [sum(chunk) <= REPLY_BYTES for chunk in chunks[4:]] == [True] * len(chunks[4:])
    assert sum(len(chunk) for chunk in chunks) == 109


def test_a_reply_never_has_more_entries_than_may_turn_out_to_be_large() -> None:
    assert next_count([Entry("1-0", {b"a": b"b"})] * MOST_COUNT) == MOST_COUNT
    assert next_count([Entry("1-0", {b"a": b"b" * REPLY_BYTES})]) == 1


def test_the_average_weight_of_entries_is_told(archive_log: ArchiveLog, keys: Keys, client: Any) -> None:
    assert archive_log.average_bytes(STREAM) == 0
    for _ in range(20):
        client.xadd(keys.events(0, "default"), {"payload": b"x" * 100_000})

    assert 100_000 <= archive_log.average_bytes(STREAM) < 150_000


async def test_a_long_range_can_be_capped_by_its_number_of_entries(stream: EventStream, archive_log: ArchiveLog) -> None:
    ids = [(await stream.append(an_event())).entry_id for _ in range(200)]

    end = archive_log.id_after(STREAM, after="0-0", to=ids[-1], entries=50)

    count = sum(len(chunk) for chunk in archive_log.read(STREAM, after="0-0", to=end))
    assert count == 50
    assert archive_log.position_at(STREAM, entry_id=end, incarnation=archive_log.ends()[0].incarnation).sequence == count


def test_a_capped_range_ends_where_another_incarnation_begins(archive_log: ArchiveLog, keys: Keys, client: Any) -> None:
    ids = lives_of(client, keys, lives={"past": 10, "present": 10})

    # The numbers begin again at 1, so those of two incarnations say nothing about each other.
    assert archive_log.id_after(STREAM, after="0-0", to=ids[-1], entries=4) == ids[3]
    assert archive_log.id_after(STREAM, after="0-0", to=ids[-1], entries=12) == ids[10]
    assert archive_log.id_after(STREAM, after=ids[10], to=ids[-1], entries=4) == ids[14]


def test_a_position_among_entries_of_a_past_incarnation_has_the_number_0(archive_log: ArchiveLog, keys: Keys, client: Any) -> None:
    ids = lives_of(client, keys, lives={"past": 3, "present": 3})

    found = [archive_log.position_at(STREAM, entry_id=entry_id, incarnation="present") for entry_id in ids]

    assert [position.sequence for position in found] == [0, 0, 0, 1, 2, 3]
    assert {position.incarnation for position in found} == {"present"}


def test_foreign_entries_do_not_confuse_the_numbers(archive_log: ArchiveLog, keys: Keys, client: Any) -> None:
    ids = lives_of(client, keys, lives={"present": 3})
    foreign: list[dict[str, str | bytes]] = [
        {"x": "y"},
        {"incarnation": b"\xff", "sequence": "1"},
        {"incarnation": "present", "sequence": "9" * 5000},
    ]
    for counter, fields in enumerate(foreign, start=1):
        client.xadd(keys.events(0, "default"), fields, id=f"3500-{counter}")
    client.xadd(keys.events(0, "default"), {"incarnation": "present", "sequence": 4}, id="4000-0")

    assert archive_log.position_at(STREAM, entry_id="3500-2", incarnation="present") == Position("present", "3500-2", 3)
    assert archive_log.id_after(STREAM, after=ids[-1], to="4000-0", entries=1) == "4000-0"
    assert archive_log.id_after(STREAM, after="0-0", to="4000-0", entries=2) == ids[1]


def test_very_many_foreign_entries_are_passed_over_in_few_calls(archive_log: ArchiveLog, keys: Keys, client: Any) -> None:
    adding = client.pipeline(transaction=False)
    for number in range(5000):
        adding.xadd(keys.events(0, "default"), {"foreign": "x"}, id=f"{number + 1}-0")
    adding.xadd(keys.events(0, "default"), {"incarnation": "present", "sequence": 1}, id="6000-0")
    adding.execute()
    before = client.info("commandstats")["cmdstat_evalsha"]["calls"]

    found = archive_log.position_at(STREAM, entry_id="5999-0", incarnation="present")

    assert (found.sequence, archive_log.id_after(STREAM, after="0-0", to="6000-0", entries=1)) == (0, "6000-0")
    assert client.info("commandstats")["cmdstat_evalsha"]["calls"] - before < 20


def test_an_archive_with_more_shards_than_the_log_begins_none_of_them(
    archive_log: ArchiveLog, log: LogSettings, home: Path, client: Any
) -> None:
    archive_log.ends()
    before = set(client.keys(f"{log.prefix}*"))
    other = ArchiveLog.open(log.model_copy(update={"shards": 2}), home=home)

    with pytest.raises(ConfigError, match=r"log\.shards=2, but this log was begun with 1 shards"):
        other.ends()

    other.close()
    assert set(client.keys(f"{log.prefix}*")) == before
