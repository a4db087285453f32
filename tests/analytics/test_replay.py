"""Archived events reach one group again: all that are meant, once each, in order, whatever interrupts that."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from analytics import replay
from analytics.counting import count
from analytics.handing import Pace, ShardWriter
from analytics.rebuilding import Place, Rebuilt
from analytics.replay import refuse_group, with_a_place_for_each
from analytics.replayer import Plan, Replayer, left_since, same_unfinished
from analytics.selection import Selection
from analytics.settings import ArchiveSettings
from infra.running.embedded import EmbeddedServer
from infra.settings import LogSettings
from infra.streams import groups
from infra.streams.connection import open_pipeline
from infra.streams.entries import decode, values_of
from infra.streams.keys import Keys
from infra.streams.reading import GroupReader
from infra.streams.replay import Limits, Progress, ReplayStream, packed
from infra.streams.replays import Replay, Replays
from infra.streams.settle import Ack
from schemas.errors import ConfigError, NotFound, StreamUnavailable, TableUnavailable
from schemas.event import StreamEvent
from tests.analytics.conftest import OpenArchive, append
from tests.events import an_event
from tests.infra.running.processes import until
from tests.infra.streams.deliveries import read_all, settle_as
from tests.infra.streams.raw import open_raw


@pytest.fixture
def replays(log: LogSettings, home: Path) -> Iterator[Replays]:
    opened = Replays.open(log, home=home)
    yield opened
    opened.close()


@pytest.fixture
def replayer(spark: SparkSession, location: str, log: LogSettings, home: Path, replays: Replays) -> Replayer:
    return Replayer(spark, location, log, home, replays, patience_s=5)


def begin(replayer: Replayer, *, group: str = "g", selection: Selection = Selection(), rate: float | None = None) -> Replay:  # noqa: B008 - frozen
    counted = count(replayer.rows(selection), shards=replayer.log.shards)
    plan = Plan(selection, rate=rate, by="me@here", started_at=datetime.now(UTC).isoformat()).with_counted(counted)
    return replayer.replays.begin(group, about=plan.to_json())


def archive_all(open_archive: OpenArchive, log: LogSettings) -> None:
    archive = open_archive(log)
    archive.run_batch(archive.start())


def taken(log: LogSettings, home: Path, *, group: str = "g", settles: bool = True) -> list[tuple[int, StreamEvent, bytes]]:
    """What the group is handed and settles: shard, event, and the replay that brought it."""

    async def take() -> list[tuple[int, StreamEvent, bytes]]:
        pipeline, keys = open_pipeline(log, home=home, wait_ms=1000), Keys(log.prefix, log.shards)
        try:
            await groups.declare(pipeline, keys=keys, group=group)
            reader = GroupReader(pipeline, keys=keys, group=group, consumer="c1")
            leases = await read_all(reader)
            if settles:
                await settle_as(reader, pipeline, keys, *((lease, Ack()) for lease in leases))
            return [(lease.shard, decode(lease.fields), lease.fields.get(b"replay", b"")) for lease in leases]
        finally:
            await pipeline.close()

    return asyncio.run(take())


def test_a_group_is_handed_the_archived_events_again_in_order_and_marked(
    open_archive: OpenArchive, replayer: Replayer, log: LogSettings, home: Path, replays: Replays
) -> None:
    events = [an_event(key=f"k{number % 7}") for number in range(60)]
    append(log, home, *events)
    assert len(taken(log, home)) == 60
    archive_all(open_archive, log)
    replay = begin(replayer)

    replayer.run(replay)

    found = taken(log, home)
    assert sorted((event for _, event, _ in found), key=lambda event: event.id) == sorted(events, key=lambda event: event.id)
    assert {mark for _, _, mark in found} == {replay.id.encode()}
    for shard in range(log.shards):
        of_shard = [event.id for own, event, _ in found if own == shard]
        assert of_shard == [event.id for event in events if event.id in set(of_shard)]
    known = replays.find(replay.id)
    assert known is not None
    assert (known.handed, known.is_done, replays.waiting("g")) == (60, True, 0)


def test_a_replay_that_was_interrupted_goes_on_where_it_was_and_means_the_same_events(
    open_archive: OpenArchive, replayer: Replayer, log: LogSettings, home: Path, replays: Replays
) -> None:
    before = [an_event() for _ in range(80)]
    append(log, home, *before)
    archive_all(open_archive, log)
    taken(log, home)
    replay = begin(replayer)
    few = replace(replayer, limits=Limits(entries=5))
    with pytest.raises(TableUnavailable), cancelled_when(lambda: replays.waiting("g") >= 5, spark=replayer.spark):
        few.run(replay)
    assert 5 <= replays.waiting("g") <= 5 * log.shards
    later = [an_event() for _ in range(10)]
    append(log, home, *later)
    archive_all(open_archive, log)

    replayer.run(known(replays, replay))
    replayer.run(known(replays, replay))

    found = [event.id for _, event, mark in taken(log, home) if mark]
    assert sorted(found) == sorted(event.id for event in before)
    assert known(replays, replay).is_done


def known(replays: Replays, replay: Replay) -> Replay:
    found = replays.find(replay.id)
    assert found is not None
    return found


@contextmanager
def cancelled_when(condition: Callable[[], bool], *, spark: SparkSession) -> Iterator[None]:
    """Ends Spark's jobs when it comes true, which is what an interrupted command does."""

    def cancel() -> None:
        try:
            until(condition, what="it is time to cancel", within_s=60)
        finally:
            spark.sparkContext.cancelAllJobs()

    thread = threading.Thread(target=cancel)
    thread.start()
    try:
        yield
    finally:
        thread.join()


def test_only_what_is_meant_is_replayed_and_at_most_at_its_rate(
    open_archive: OpenArchive, replayer: Replayer, log: LogSettings, home: Path
) -> None:
    meant = [an_event(tenant_id="acme", event_type="acme.paid") for _ in range(20)]
    append(log, home, *meant, *(an_event() for _ in range(20)))
    archive_all(open_archive, log)
    taken(log, home)
    replay = begin(replayer, selection=Selection(tenants=("acme",), where="event_type LIKE 'acme.%'"), rate=40)

    began = time.monotonic()
    replayer.run(replay)
    seconds = time.monotonic() - began

    assert {event.id for _, event, _ in taken(log, home)} == {event.id for event in meant}
    assert seconds > 0.3  # A shard's first call is not delayed; the others make up most of the half second.


def test_a_condition_that_fails_on_a_value_is_refused_when_events_are_counted(
    open_archive: OpenArchive, replayer: Replayer, log: LogSettings, home: Path
) -> None:
    append(log, home, an_event(payload=b'{"n": 5}'), an_event(payload=b'{"n": "five"}'))
    archive_all(open_archive, log)
    plan = Plan(Selection(where="payload:n::int = 5"), is_counted=False)
    # It gives the table a name, which other tests of the same Spark would find.
    apart = replace(replayer, spark=replayer.spark.newSession())

    with pytest.raises(ConfigError, match=r"the condition cannot be used: \[INVALID_VARIANT_CAST\]"):
        replay._counted(apart, plan=plan)
    begun = replayer.replays.begin("g", about=plan.to_json())
    with pytest.raises(ConfigError, match="the condition cannot be used"):
        replay.with_history(begun, replayer=apart)


def test_nothing_more_is_handed_of_a_replay_that_was_cancelled(
    open_archive: OpenArchive, replayer: Replayer, log: LogSettings, home: Path, replays: Replays
) -> None:
    append(log, home, an_event())
    archive_all(open_archive, log)
    taken(log, home)
    replay = begin(replayer)
    replays.forget(replay)

    with pytest.raises(NotFound, match="is no more"):
        replayer.run(replay)

    assert taken(log, home) == []


@pytest.mark.fault("REPLAY")
def test_a_replay_waits_for_a_log_that_is_away_and_says_so_when_it_stays_away(
    spark: SparkSession, open_archive: OpenArchive, own_server: EmbeddedServer, location: str, home: Path
) -> None:
    own_log = LogSettings(url=own_server.url, timeout_ms=500)
    append(own_log, home, *(an_event() for _ in range(200)))
    archive_all(open_archive, own_log)
    taken(own_log, home)
    replays = Replays.open(own_log, home=home)
    replayer = Replayer(spark, location, own_log, home, replays, limits=Limits(entries=20), patience_s=30)
    replay = begin(replayer)
    found: list[bytes] = []

    def restart_and_settle() -> None:
        until(lambda: replays.waiting("g") >= 20, what="a stream of the group is full", within_s=60)
        own_server.kill()
        time.sleep(1)
        own_server.start()
        while len(found) < 200:
            found.extend(event.id.encode() for _, event, _ in taken(own_log, home))

    thread = threading.Thread(target=restart_and_settle)
    thread.start()
    replayer.run(replay)
    thread.join(timeout=60)

    assert len(found) == len(set(found)) == 200
    another = begin(replayer)
    own_server.stop()
    with pytest.raises(StreamUnavailable):
        replace(replayer, patience_s=0.5).run(another)
    replays.close()


@pytest.mark.parametrize(
    ("group", "is_new", "said"),
    [
        ("", False, "say which group"),
        ("archive", False, "has all events already"),
        ("other", False, "there is no group other"),
        ("g", True, "there is a group g already"),
        ("No Name", False, "--group"),
    ],
)
def test_a_group_that_cannot_be_given_a_replay_is_refused(group: str, is_new: bool, said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        refuse_group(group, known=["g"], is_new=is_new)


def test_a_group_that_there_is_or_is_to_be_made_is_taken() -> None:
    refuse_group("g", known=["g"], is_new=False)
    refuse_group("new", known=["g"], is_new=True)


def test_the_same_choice_is_found_while_it_is_unfinished() -> None:
    chosen, other = Selection(tenants=("a",)), Selection(tenants=("b",))
    about: dict[str, Any] = {"selection": {"tenants": ["a"]}}
    unfinished = Replay("r1", "g", about, {0: Progress(1, "x"), 1: Progress(0, "end")})
    done = Replay("r2", "g", about, {0: Progress(1, "end"), 1: Progress(0, "end")})

    assert same_unfinished([done, unfinished], selection=chosen) is unfinished
    assert same_unfinished([done], selection=chosen) is None
    assert same_unfinished([unfinished], selection=other) is None


def test_days_that_all_shards_have_behind_them_are_not_read_again() -> None:
    progress = {0: Progress(5, "2000000|0:default|1-0|id"), 1: Progress(3, "3000000|0:default|1-0|id"), 2: Progress(0, "")}

    assert left_since(progress, shards={0: 5, 1: 4}) == datetime(1970, 1, 1, 0, 0, 3, tzinfo=UTC)
    assert left_since(progress, shards={0: 6, 1: 4}) == datetime(1970, 1, 1, 0, 0, 2, tzinfo=UTC)
    assert left_since(progress, shards={0: 5, 1: 4, 2: 1}) == datetime(1970, 1, 1, tzinfo=UTC)
    assert left_since(progress, shards={0: 5, 1: 3}) is None


def test_a_group_that_settles_nothing_is_asked_less_and_less_often(log: LogSettings, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    taken(log, home)  # declares it
    pauses: list[float] = []
    key = Keys(log.prefix, log.shards).replay(0, "g")
    with closing(Replays.open(log, home=home)) as replays, open_raw(log, home=home) as client:
        begun = replays.begin("g", about={"started_at": "2026"})

        def pause(seconds: float) -> None:
            pauses.append(seconds)
            if len(pauses) == 9:
                client.xtrim(key, maxlen=0, approximate=False)

        with closing(ReplayStream.open(log, home=home, group="g", replay=begun.id, limits=Limits(entries=1))) as stream:
            writer = ShardWriter(stream, shard=0, pace=Pace(None), patience_s=10)
            monkeypatch.setattr(time, "sleep", pause)
            for number in (1, 2):
                event = an_event()
                writer.put(Rebuilt(0, Place(number, "0:default", 1, number, event.id), packed(values_of(event)), ()))

            writer.flush()

    assert writer.handed == 2
    assert pauses[1:9] == [0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.0, 1.0]


def test_a_pace_spreads_events_over_time_and_makes_up_for_no_pause() -> None:
    now = [100.0]
    pace = Pace(50, now=lambda: now[0])

    waits = [pace.wait_s(5), pace.wait_s(5)]
    now[0] += 10
    waits.append(pace.wait_s(5))

    assert waits == [0.0, pytest.approx(0.1), 0.0]
    assert (pace.at_once, Pace(None).wait_s(1000)) == (5, 0.0)


def test_each_shards_task_has_a_place_on_one_machine() -> None:
    assert with_a_place_for_each(ArchiveSettings(), shards=8).master == "local[8]"
    assert with_a_place_for_each(ArchiveSettings(master="local[3]"), shards=8).master == "local[8]"
    assert with_a_place_for_each(ArchiveSettings(master="spark://a:1"), shards=8).master == "spark://a:1"
