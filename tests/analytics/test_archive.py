from __future__ import annotations

import base64
import hashlib
import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import orjson
import pytest

from analytics.archive import DAY_MS, Archive, following, is_aged, taking_in
from analytics.commits import Commit, Totals
from analytics.lives import Life
from analytics.plan import Range, plan
from analytics.settings import ArchiveSettings
from infra.running.embedded import EmbeddedServer
from infra.settings import LogSettings
from infra.streams.connection import open_blocking
from infra.streams.entries import encode
from infra.streams.keys import EVENT_STREAMS, Keys
from infra.streams.positions import Position, StreamName
from schemas.errors import StreamUnavailable, TableUnavailable, WriteSkipped
from schemas.event import Priority, StreamEvent
from tests.analytics.conftest import OpenArchive, append
from tests.events import an_event, events_of_all_shards


def archived_bodies(archive: Archive) -> list[bytes]:
    return sorted(bytes(row.body) for row in archive.table.dataframe().select("body").collect())


def archived_ids(archive: Archive) -> list[str]:
    return sorted(row.id for row in archive.table.dataframe().select("id").collect())


def entries_left(log: LogSettings, home: Path) -> int:
    with open_blocking(log, home=home) as client:
        keys = Keys(log.prefix, log.shards)
        return sum(int(client.xlen(keys.events(shard, name))) for shard in keys.all_shards() for name in EVENT_STREAMS)


def test_every_event_of_all_streams_becomes_one_row_with_its_bytes(open_archive: OpenArchive, log: LogSettings, home: Path) -> None:
    events = [an_event(payload=b"body %d" % number, priority=priority) for number, priority in enumerate(list(Priority) * 5)]
    append(log, home, *events)
    archive = open_archive()

    committed = archive.run_batch(archive.start())

    rows = {row.id: row for row in archive.table.dataframe().collect()}
    assert {event_id: (bytes(row.body), row.priority) for event_id, row in rows.items()} == {
        event.id: (event.payload, event.priority.value) for event in events
    }
    assert all(hashlib.sha256(row.body).hexdigest() == row.body_sha256 for row in rows.values())
    assert (committed.rows, committed.missing, committed.totals) == (20, 0, Totals(rows=20))


def test_an_archive_with_nothing_new_commits_nothing(open_archive: OpenArchive, log: LogSettings, home: Path) -> None:
    append(log, home, an_event())
    archive = open_archive()
    committed = archive.run_batch(archive.start())

    assert archive.run_batch(committed) is committed


def test_what_is_archived_is_trimmed_and_the_group_stands_at_the_end(open_archive: OpenArchive, log: LogSettings, home: Path) -> None:
    append(log, home, *(an_event() for _ in range(10)))
    archive = open_archive()

    committed = archive.run_batch(archive.start())

    assert entries_left(log, home) == 0
    assert committed.positions == {end.stream: end.last for end in archive.log.ends() if end.last.sequence}


def test_the_group_moves_after_the_commit_is_synced(
    open_archive: OpenArchive, log: LogSettings, home: Path, synced: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    append(log, home, an_event())
    archive = open_archive()
    last = archive.start()
    really = archive.log.move

    def move(positions: Mapping[StreamName, Position]) -> None:
        synced.append("moved")
        really(positions)

    monkeypatch.setattr(archive.log, "move", move)
    synced.clear()
    archive.run_batch(last)

    assert synced.index(f"{archive.table.location}/_delta_log/{1:020}.json") < synced.index("moved")
    assert synced[-1] == "moved"


def test_the_next_run_continues_where_the_table_ends(open_archive: OpenArchive, log: LogSettings, home: Path) -> None:
    append(log, home, an_event(payload=b"first"))
    archive = open_archive()
    archive.run_batch(archive.start())
    append(log, home, an_event(payload=b"second"))

    again = open_archive()
    committed = again.run_batch(again.start())

    assert archived_bodies(again) == [b"first", b"second"]
    assert (committed.batch, committed.totals) == (2, Totals(rows=2))


def test_a_run_that_died_between_commit_and_move_is_repaired_by_the_next(
    open_archive: OpenArchive, log: LogSettings, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    append(log, home, an_event())
    archive = open_archive()
    last = archive.start()
    with monkeypatch.context() as dying:
        dying.setattr("analytics.archive.move", _die)
        with pytest.raises(StreamUnavailable):
            archive.run_batch(last)
    assert entries_left(log, home) == 1

    again = open_archive()
    committed = again.start()
    again.log.trim()

    assert entries_left(log, home) == 0
    assert again.run_batch(committed) is committed
    assert again.table.dataframe().count() == 1


def _die(*_: object, **__: object) -> None:
    raise StreamUnavailable("the log went away between commit and move")


def test_a_backlog_is_drained_in_batches_of_about_the_cap(open_archive: OpenArchive, log: LogSettings, home: Path) -> None:
    append(log, home, *(an_event() for _ in range(30)))
    archive = open_archive(settings=ArchiveSettings(max_batch_entries=15))

    last, sizes = archive.start(), []
    while (committed := archive.run_batch(last)) is not last:
        sizes.append(committed.rows)
        last = committed

    assert sum(sizes) == 30
    assert len(sizes) >= 2
    assert (last.totals, len(set(archived_ids(archive)))) == (Totals(rows=30), 30)


def test_a_range_in_pieces_has_every_entry_once(open_archive: OpenArchive, log: LogSettings, home: Path) -> None:
    append(log, home, *(an_event(key="same-shard") for _ in range(20)))
    archive = open_archive()
    (one,) = plan(archive.log.ends(), archived={})

    found = list(archive._pieces(one, count=3))

    assert [piece.entries for piece in found] == [6, 7, 7]
    assert [found[0].after, found[-1].to] == [one.after, one.to]
    assert [piece.after for piece in found[1:]] == [piece.to for piece in found[:-1]]
    assert list(archive._pieces(one, count=1)) == [one]


def test_large_bodies_are_drained_in_batches_of_about_so_many_bytes(open_archive: OpenArchive, log: LogSettings, home: Path) -> None:
    append(log, home, *(an_event(payload=b"x" * 100_000) for _ in range(12)))
    archive = open_archive(settings=ArchiveSettings(max_batch_bytes=300_000))

    last, sizes = archive.start(), []
    while (committed := archive.run_batch(last)) is not last:
        sizes.append((committed.rows, committed.cut))
        last = committed

    assert sum(rows for rows, _ in sizes) == len(set(archived_ids(archive))) == 12
    assert max(rows for rows, _ in sizes) <= 8  # at least one of each shard
    assert [cut for _, cut in sizes] == [True] * (len(sizes) - 1) + [False]


@pytest.mark.timeout(300)
def test_bodies_that_are_large_together_fit_the_default_heap(open_archive: OpenArchive, own_server: EmbeddedServer, home: Path) -> None:
    log = LogSettings(url=own_server.url, shards=1, timeout_ms=30_000)
    body = b'{"x": "' + os.urandom(4 * 1024 * 1024).hex().encode() + b'"}'
    append(log, home, *(an_event(payload=body) for _ in range(10)))
    archive = open_archive(log, ArchiveSettings(max_batch_bytes=1024 * 1024 * 1024))

    committed = archive.run_batch(archive.start())

    assert (committed.rows, committed.cut) == (10, False)
    assert {row.body_sha256 for row in archive.table.dataframe().select("body_sha256").collect()} == {hashlib.sha256(body).hexdigest()}


def test_a_batch_that_fails_is_planned_smaller_by_the_next_run(
    open_archive: OpenArchive, log: LogSettings, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    append(log, home, *(an_event(key="same-shard", payload=b"x" * 1000) for _ in range(8)))
    archive = open_archive(settings=ArchiveSettings(max_batch_entries=8))
    last = archive.start()
    with monkeypatch.context() as dying:
        dying.setattr("analytics.archive.commit_then_move", _die_of_memory)
        for _ in range(2):
            with pytest.raises(TableUnavailable):
                archive.run_batch(last)

    again = open_archive(settings=ArchiveSettings(max_batch_entries=8))
    committed = again.run_batch(again.start())

    assert 2 <= committed.rows < 8
    assert committed.cut


def _die_of_memory(*_: object, **__: object) -> None:
    raise TableUnavailable("the JVM is out of memory")


def test_entries_that_vanished_from_the_log_are_counted_as_lost(open_archive: OpenArchive, log: LogSettings, home: Path) -> None:
    archive = open_archive()
    last = archive.start()
    append(log, home, *(an_event(key="same-shard") for _ in range(5)))
    end = next(end for end in archive.log.ends() if end.last.sequence)
    with open_blocking(log, home=home) as client:
        client.xtrim(Keys(log.prefix, log.shards).events(end.stream.shard, end.stream.name), maxlen=3, approximate=False)

    committed = archive.run_batch(last)

    assert (committed.rows, committed.missing) == (3, 2)
    assert archive.table.newest_commit(run=last.run).totals == Totals(rows=3, lost=2)


def test_after_a_restart_of_the_log_nothing_is_twice_in_the_table_and_nothing_is_missing(
    open_archive: OpenArchive, own_server: EmbeddedServer, home: Path
) -> None:
    log = LogSettings(url=own_server.url)
    before = events_of_all_shards(log, count=12)
    append(log, home, *before)
    _keep_entries_for_a_slow_group(log, home)
    archive = open_archive(log)
    last = archive.run_batch(archive.start())
    unarchived = [an_event() for _ in range(7)]
    append(log, home, *unarchived)
    own_server.kill()
    own_server.start()
    after = [an_event() for _ in range(5)]
    append(log, home, *after)

    again = open_archive(log)
    committed = again.run_batch(again.start())

    assert archived_ids(again) == sorted(event.id for event in before + unarchived + after)
    assert (committed.rechecked, committed.rows, committed.duplicates, committed.missing) == (True, 12, 12, 0)
    assert {position.incarnation for position in committed.positions.values()}.isdisjoint(
        position.incarnation for position in last.positions.values()
    )
    ended = {name for lives in committed.lives.values() for name, life in lives.items() if life.ended_ms}
    assert ended == {position.incarnation for position in last.positions.values()}
    assert again.run_batch(committed) is committed


def test_a_reread_that_is_cut_by_the_cap_goes_on_without_duplicates(
    open_archive: OpenArchive, own_server: EmbeddedServer, home: Path
) -> None:
    log = LogSettings(url=own_server.url, shards=1)
    before = [an_event() for _ in range(4)]
    append(log, home, *before)
    _keep_entries_for_a_slow_group(log, home)
    archive = open_archive(log)
    archive.run_batch(archive.start())
    own_server.kill()
    own_server.start()
    after = [an_event() for _ in range(2)]
    append(log, home, *after)

    again = open_archive(log, ArchiveSettings(max_batch_entries=4))
    last = again.start()
    while (committed := again.run_batch(last)) is not last:
        last = committed

    assert archived_ids(again) == sorted(event.id for event in before + after)
    assert last.batch > 2  # it was cut
    assert last.totals == Totals(rows=6, duplicates=4)


def _keep_entries_for_a_slow_group(log: LogSettings, home: Path) -> None:
    # Without a group that lags, what is archived is trimmed and there is nothing to read again.
    keys = Keys(log.prefix, log.shards)
    with open_blocking(log, home=home) as client:
        for shard in keys.all_shards():
            client.xgroup_create(keys.events(shard, "default"), "slow", id="0", mkstream=True)


def test_an_entry_whose_appender_was_not_sure_is_compared_with_the_table(open_archive: OpenArchive, log: LogSettings, home: Path) -> None:
    event = an_event(key="same-shard")
    append(log, home, event)
    archive = open_archive()
    last = archive.run_batch(archive.start())
    _append_raw(archive, log, home, {**_fields(event), "recheck": "1", "sequence": "2"})
    _append_raw(archive, log, home, {**_fields(an_event(id=NEW)), "recheck": "1", "sequence": "3"})

    committed = archive.run_batch(last)

    assert archived_ids(archive) == sorted([event.id, NEW])
    assert (committed.rechecked, committed.rows, committed.duplicates) == (True, 1, 1)


NEW = "01900000-0000-7000-8000-000000000000"


def test_an_entry_that_is_no_event_is_a_row_with_its_bytes_and_stops_nothing(
    open_archive: OpenArchive, log: LogSettings, home: Path
) -> None:
    event = an_event(key="same-shard")
    append(log, home, event)
    archive = open_archive()
    archive.log.ends()
    _append_raw(archive, log, home, {**_fields(an_event(id=NEW)), "version": "99", "sequence": "2"})

    committed = archive.run_batch(archive.start())

    rows = {row.id: row for row in archive.table.dataframe().collect()}
    assert (committed.rows, committed.missing) == (2, 0)
    assert rows[event.id].decode_error is None
    assert "version b'99'" in rows[NEW].decode_error
    assert base64.b64decode(orjson.loads(rows[NEW].raw_entry)["version"]) == b"99"


def _fields(event: StreamEvent) -> dict[str, str]:
    flat = [value.decode() if isinstance(value, bytes) else str(value) for value in encode(event)]
    return {**dict(zip(flat[::2], flat[1::2], strict=True)), "conflict": "0", "recheck": "0"}


def _append_raw(archive: Archive, log: LogSettings, home: Path, fields: dict[str, str]) -> None:
    """Writes an entry as a later release, or a receiver that was not sure, would."""
    end = next(end for end in archive.log.ends() if end.last.sequence)
    keys = Keys(log.prefix, log.shards)
    with open_blocking(log, home=home) as client:
        client.xadd(keys.events(end.stream.shard, end.stream.name), {**fields, "incarnation": end.incarnation})
        client.hset(keys.ledger(end.stream.shard), f"sequence:{end.stream.name}:{end.incarnation}", fields["sequence"])


def test_a_skipped_write_does_not_move_the_group(open_archive: OpenArchive, log: LogSettings, home: Path) -> None:
    append(log, home, an_event())
    archive = open_archive()
    last = archive.start()
    archive.warm(replace(last, batch=7))

    with pytest.raises(WriteSkipped):
        archive.run_batch(last)

    assert entries_left(log, home) == 1


def test_warming_commits_the_positions_and_no_row(open_archive: OpenArchive, log: LogSettings, home: Path) -> None:
    append(log, home, an_event())
    archive = open_archive()
    committed = archive.run_batch(archive.start())

    warmed = archive.warm(committed)

    assert (warmed.positions, warmed.rows, warmed.totals) == (committed.positions, 0, committed.totals)


def test_a_log_that_does_not_answer_is_unavailable_and_nothing_is_committed(
    open_archive: OpenArchive, own_server: EmbeddedServer, home: Path
) -> None:
    log = LogSettings(url=own_server.url)
    append(log, home, an_event())
    archive = open_archive(log)
    last = archive.start()
    own_server.kill()

    with pytest.raises(StreamUnavailable):
        archive.run_batch(last)

    assert archive.table.dataframe().count() == 0
    own_server.start()
    assert archive.run_batch(last).rows == 1


def test_a_batch_continues_the_last_one() -> None:
    stream, other = StreamName(0, "default"), StreamName(1, "low")
    last = Commit("run", "events", 4, {other: Position("b", "3-0", 3)}, read=2, rows=2, before=Totals(rows=5))

    commit = taking_in(following(last), [(Range(stream, Position("a", "0-0", 0), Position("a", "9-0", 9)), None)], now_ms=1)

    assert (commit.run, commit.batch, commit.before) == ("run", 5, Totals(rows=7))
    assert commit.positions == {other: Position("b", "3-0", 3), stream: Position("a", "9-0", 9)}
    assert commit.lives == {stream: {"a": Life("9-0", 9, 9)}}


def test_positions_are_committed_again_when_nothing_was_new_for_a_day(open_archive: OpenArchive, log: LogSettings, home: Path) -> None:
    append(log, home, an_event())
    archive = open_archive()
    committed = archive.run_batch(archive.start())
    assert archive.run_batch(committed) is committed

    again = archive.run_batch(replace(committed, committed_at_ms=committed.committed_at_ms - DAY_MS - 1))

    assert (again.batch, again.rows, again.positions, again.totals) == (2, 0, committed.positions, committed.totals)
    assert archive.run_batch(again) is again


def test_a_table_that_has_nothing_yet_has_no_positions_to_keep() -> None:
    assert not is_aged(Commit("run", "events", 0, {}), now_ms=10**13)
