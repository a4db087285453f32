"""What is replayed reaches one group's own stream: each event once, in order, never too many, and marked."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from infra.running.embedded import EmbeddedServer
from infra.settings import LogSettings
from infra.streams import groups
from infra.streams.connection import open_blocking
from infra.streams.dead_letters import DeadLetters
from infra.streams.entries import decode, further_fields, values_of
from infra.streams.group_removal import GroupRemoval
from infra.streams.keys import Keys
from infra.streams.lag import read_lag
from infra.streams.pipelining import Pipeline
from infra.streams.purging import Purging
from infra.streams.reading import GroupReader
from infra.streams.replay import Limits, Progress, Replayed, ReplayStream, packed
from infra.streams.replays import Replays
from infra.streams.settle import Ack, RetryLater
from processors.retry import fence_token
from schemas.errors import StreamUnavailable
from schemas.event import StreamEvent
from tests.events import an_event
from tests.infra.streams.deliveries import GIVE_UP, read_all, reader_of, settle_as

AHEAD_MS = 3_600_000


@pytest.fixture
def log(log: LogSettings) -> LogSettings:
    return log.model_copy(update={"shards": 1})


@pytest.fixture
def replays(log: LogSettings, home: Path) -> Iterator[Replays]:
    opened = Replays.open(log, home=home)
    yield opened
    opened.close()


def open_stream(log: LogSettings, home: Path, *, limits: Limits = Limits()) -> ReplayStream:  # noqa: B008 - frozen
    return ReplayStream.open(log, home=home, group="g", replay="r1", limits=limits)


@pytest.fixture
def replay_stream(log: LogSettings, home: Path) -> Iterator[ReplayStream]:
    opened = open_stream(log, home)
    yield opened
    opened.close()


@pytest.fixture
async def reader(pipeline: Pipeline, keys: Keys, replays: Replays) -> GroupReader:
    """Of a group that has a replay which was begun."""
    reader = await reader_of(pipeline, keys)
    replays.begin("g", about={}, replay="r1")
    return reader


def replayed(events: list[StreamEvent], *, origin: str = "1000-0") -> list[Replayed]:
    return [Replayed(f"{place:04}", origin, packed(values_of(event)), further_fields(event)) for place, event in enumerate(events, 1)]


def some(number: int) -> list[StreamEvent]:
    return [an_event() for _ in range(number)]


async def test_what_is_replayed_is_read_in_its_order_as_it_was_and_says_so(reader: GroupReader, replay_stream: ReplayStream) -> None:
    events = some(20)

    handed = replay_stream.hand(0, events=replayed(events), since=Progress(), is_end=True)

    found = await read_all(reader)
    assert [decode(lease.fields) for lease in found] == events
    assert {lease.fields[b"replay"] for lease in found} == {b"r1"}
    assert {reader.kind_of(lease.stream) for lease in found} == {"replay"}
    assert (handed.status, handed.appended, handed.progress, handed.progress.is_done) == ("appended", 20, Progress(20, "end"), True)


@pytest.mark.fault("REPLAY")
async def test_whoever_repeats_a_call_hands_nothing_twice(
    reader: GroupReader, replay_stream: ReplayStream, log: LogSettings, home: Path
) -> None:
    """The reply of the first one was lost, or another process went on with the same replay."""
    events = replayed(some(10))
    replay_stream.hand(0, events=events[:6], since=Progress())
    other = open_stream(log, home)

    again = other.hand(0, events=events[:6], since=Progress())
    further = other.hand(0, events=events[6:], since=again.progress)
    other.close()

    assert (again.status, again.progress) == ("moved", Progress(6, "0006"))
    assert further.progress == Progress(10, "0010")
    assert len(await read_all(reader)) == 10


async def test_no_more_than_the_limit_wait_for_the_group(
    reader: GroupReader, pipeline: Pipeline, keys: Keys, log: LogSettings, home: Path, client: Any
) -> None:
    events, bounded = replayed(some(10)), open_stream(log, home, limits=Limits(entries=4))

    first = bounded.hand(0, events=events, since=Progress(), is_end=True)
    second = bounded.hand(0, events=events[4:], since=first.progress, is_end=True)
    taken = await read_all(reader)
    in_work = bounded.hand(0, events=events[4:], since=first.progress, is_end=True)
    await settle_as(reader, pipeline, keys, *((lease, Ack()) for lease in taken[:3]))
    third = bounded.hand(0, events=events[4:], since=first.progress, is_end=True)
    bounded.close()

    assert (first.status, first.appended, first.progress) == ("appended", 4, Progress(4, "0004"))
    assert (second.status, in_work.status) == ("full", "full")
    assert (third.appended, third.progress) == (3, Progress(7, "0007"))
    assert client.xlen(keys.replay(0, "g")) == 4


async def test_large_events_fill_the_stream_by_their_bytes(reader: GroupReader, log: LogSettings, home: Path) -> None:
    events = replayed([an_event(payload=b"x" * 100_000) for _ in range(20)])
    bounded, since, statuses = open_stream(log, home, limits=Limits(size_bytes=500_000)), Progress(), list[str]()

    for event in events:
        handed = bounded.hand(0, events=[event], since=since)
        since, statuses = handed.progress, [*statuses, handed.status]
    bounded.close()

    assert statuses[:4] == ["appended"] * 4
    assert statuses[-1] == "full"


async def test_nothing_is_replayed_while_the_log_is_above_its_hard_cap(
    reader: GroupReader,
    replay_stream: ReplayStream,
    keys: Keys,
    client: Any,
) -> None:
    seconds, _ = client.time()
    client.hset(keys.ledger(0), "full", (seconds + 60) * 1000)

    assert replay_stream.hand(0, events=replayed(some(1)), since=Progress()).status == "full"
    client.hdel(keys.ledger(0), "full")
    assert replay_stream.hand(0, events=replayed(some(1)), since=Progress()).status == "appended"


async def test_settling_deletes_what_was_replayed(
    reader: GroupReader, replay_stream: ReplayStream, pipeline: Pipeline, keys: Keys, client: Any
) -> None:
    replay_stream.hand(0, events=replayed(some(5)), since=Progress())

    lost = await settle_as(reader, pipeline, keys, *((lease, Ack()) for lease in await read_all(reader)))

    assert lost == []
    assert client.xlen(keys.replay(0, "g")) == 0
    assert [lag.unsettled for lag in await read_lag(pipeline, keys=keys, group="g") if "replay" in lag.stream] == [0]


async def test_retries_dead_letters_and_requeues_of_a_replayed_event_keep_the_mark(
    reader: GroupReader, replay_stream: ReplayStream, pipeline: Pipeline, keys: Keys, log: LogSettings, home: Path
) -> None:
    replay_stream.hand(0, events=replayed(some(1)), since=Progress())
    (lease,) = await read_all(reader)
    await settle_as(reader, pipeline, keys, (lease, RetryLater(0, 1)))
    (retried,) = await read_all(reader)
    await settle_as(reader, pipeline, keys, (retried, GIVE_UP))
    letters = DeadLetters.open(log, home=home)
    (letter,) = letters.letters()
    letters.requeue(letter)
    letters.close()
    (requeued,) = await read_all(reader)

    assert [one.fields[b"replay"] for one in (retried, requeued)] == [b"r1", b"r1"]
    tokens = [fence_token(entry_id=one.entry_id, delivery_count=1) for one in (lease, retried, requeued)]
    assert tokens == sorted(set(tokens))


@pytest.mark.parametrize("ahead", ["the entry it had", "the group's retries"])
async def test_fence_tokens_grow_also_when_the_clock_was_set_back(
    ahead: str, reader: GroupReader, replay_stream: ReplayStream, keys: Keys, client: Any
) -> None:
    seconds, _ = client.time()
    before = f"{seconds * 1000 + AHEAD_MS}-0"
    if ahead == "the group's retries":
        client.xadd(keys.retry(0, "g"), {"x": "y"}, id=before)
        client.xdel(keys.retry(0, "g"), before)

    replay_stream.hand(0, events=replayed(some(3), origin=before if ahead == "the entry it had" else "1-0"), since=Progress())

    ids = [lease.entry_id for lease in await read_all(reader)]
    assert all(fence_token(entry_id=one, delivery_count=1) > fence_token(entry_id=before, delivery_count=4000) for one in ids)


async def test_nothing_is_handed_to_a_group_that_was_removed_or_of_a_replay_that_was_cancelled(
    reader: GroupReader,
    replay_stream: ReplayStream,
    replays: Replays,
    keys: Keys,
    client: Any,
    log: LogSettings,
    home: Path,
) -> None:
    (replay,) = replays.of("g")
    replays.forget(replay)
    cancelled = replay_stream.hand(0, events=replayed(some(1)), since=Progress())
    replays.begin("g", about={}, replay="r1")
    removal = GroupRemoval.open(log, home=home)
    removal.remove("g", least_idle_ms=0)
    removal.close()

    removed = replay_stream.hand(0, events=replayed(some(1)), since=Progress())

    assert (cancelled.status, removed.status) == ("gone", "gone")
    assert client.exists(keys.replay(0, "g"), keys.replays(0, "g")) == 0


async def test_purging_a_group_drops_what_was_replayed(
    reader: GroupReader, replay_stream: ReplayStream, keys: Keys, client: Any, log: LogSettings, home: Path
) -> None:
    replay_stream.hand(0, events=replayed(some(7)), since=Progress())
    purging = Purging.open(log, home=home)

    dropped = purging.purge("g", by="me@here")
    purging.close()

    assert dropped is not None
    assert dropped.undelivered == 7
    assert client.xlen(keys.replay(0, "g")) == 0
    assert await read_all(reader) == []


async def test_a_replay_that_cannot_append_writes_no_progress(
    reader: GroupReader,
    replay_stream: ReplayStream,
    keys: Keys,
    client: Any,
) -> None:
    client.delete(keys.replay(0, "g"))
    client.set(keys.replay(0, "g"), "no stream")

    with pytest.raises(StreamUnavailable, match="WRONGTYPE"):
        replay_stream.hand(0, events=replayed(some(3)), since=Progress())
    client.delete(keys.replay(0, "g"))

    assert replay_stream.progress(0) == Progress()


async def test_the_log_knows_its_replays_and_how_far_each_has_come(
    reader: GroupReader,
    replay_stream: ReplayStream,
    replays: Replays,
) -> None:
    replay_stream.hand(0, events=replayed(some(3)), since=Progress())
    replays.begin("g", about={"started_at": "2026"}, replay="r2")

    newest, oldest = replays.of("g")

    assert (newest.id, oldest.id) == ("r2", "r1")
    assert (oldest.handed, oldest.is_done) == (3, False)
    assert replays.find("r2") == newest
    assert replays.find("r3") is None
    assert replays.waiting("g") == 3


@pytest.mark.fault("REPLAY")
async def test_progress_and_entries_survive_a_kill_of_the_server_together(
    own_server: EmbeddedServer, own_log: LogSettings, own_pipeline: Pipeline, home: Path
) -> None:
    keys = Keys(own_log.prefix, own_log.shards)
    await groups.declare(own_pipeline, keys=keys, group="g")
    records = Replays.open(own_log, home=home)
    records.begin("g", about={}, replay="r1")
    records.close()
    opened = open_stream(own_log, home)
    opened.hand(0, events=replayed(some(30)), since=Progress())

    own_server.kill()
    own_server.start()

    client = open_blocking(own_log, home=home)
    assert open_stream(own_log, home).progress(0) == Progress(30, "0030")
    assert client.xlen(keys.replay(0, "g")) == 30
    client.close()
    opened.close()
