"""An erasure takes what is chosen from every key of the log, is no loss to anybody, and touches nobody else."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from redis.cluster import RedisCluster

from infra.settings import LogSettings
from infra.streams import janitor
from infra.streams.dead_letters import DeadLetters
from infra.streams.erasing import Chosen, Erasing
from infra.streams.keys import Keys
from infra.streams.letter_filter import LetterFilter
from infra.streams.overview import overview
from infra.streams.pipelining import Pipeline
from infra.streams.purging import Purging
from infra.streams.quarantine import BEGUN, QuarantinedRequests
from infra.streams.ranges import ArchiveLog
from infra.streams.reading import Lease
from infra.streams.settle import Ack, RetryLater
from infra.streams.stream import EventStream
from tests.contracts.test_quarantine import a_refused_request
from tests.events import an_event
from tests.infra.streams.deliveries import GIVE_UP, read_all, reader_of, settle_as

GOES, STAYS = "goes", "stays"
EACH = 6
"""Events of either tenant that are taken: a dead letter, a waiting retry, an immediate one, and three in work."""
OF_ONE = Counter({"events": EACH + 2, "delayed": 2, "retry": 1, "parked": 1, "dead": 1, "quarantine": 1})
"""What the log then holds of either: the entries of all its events, two of them new."""


@pytest.fixture
def log(log: LogSettings) -> LogSettings:
    return log.model_copy(update={"shards": 2})


@pytest.fixture
def erasing(log: LogSettings, home: Path) -> Iterator[Erasing]:
    opened = Erasing.open(log, home=home)
    yield opened
    opened.close()


async def fill(stream: EventStream, pipeline: Pipeline, keys: Keys, client: Any) -> list[Lease]:
    """Everything that the log can hold of two tenants; returns what a worker has in hand.

    The delivery ids choose the shards, so they are always the same: by chance no erased event might lie where a group counts what is lost.
    """
    reader, in_hand = await reader_of(pipeline, keys), []
    for number, tenant in enumerate((GOES, STAYS) * EACH):
        await stream.append(an_event(tenant_id=tenant, delivery_id=f"taken-{number}", payload=tenant.encode()))
    taken = await read_all(reader)
    for tenant in (GOES, STAYS):
        dead, waits, again, *others = (lease for lease in taken if lease.fields[b"tenant_id"] == tenant.encode())
        await settle_as(reader, pipeline, keys, (dead, GIVE_UP), (waits, RetryLater(3_600_000, 1)), (again, RetryLater(0, 1)))
        in_hand += others
        await stream.append(an_event(tenant_id=tenant), deliver_at=datetime.now(UTC) + timedelta(hours=1))
        await stream.quarantine(a_refused_request(tenant_id=tenant), cap=1000, cap_bytes=10**6)
        client.xadd(keys.parked(1, "g"), {"version": "9", "id": "an-id", "tenant_id": tenant, "source": "github"})
    for number, tenant in enumerate((GOES, STAYS) * 2):
        await stream.append(an_event(tenant_id=tenant, delivery_id=f"new-{number}"))
    return in_hand


def archive_all(archive_log: ArchiveLog) -> None:
    archive_log.move({end.stream: end.last for end in archive_log.ends()})


@pytest.mark.fault("F2")
async def test_everything_of_a_tenant_goes_and_nothing_of_any_other(
    stream: EventStream, pipeline: Pipeline, keys: Keys, client: Any, archive_log: ArchiveLog, erasing: Erasing
) -> None:
    in_hand = await fill(stream, pipeline, keys, client)
    archive_all(archive_log)
    before = await overview(pipeline, keys=keys)

    counted, erased = erasing.count(Chosen(GOES)), erasing.erase(Chosen(GOES))

    assert counted == erased == OF_ONE
    assert erasing.count(Chosen(GOES)) == Counter()
    assert erasing.count(Chosen(STAYS)) == OF_ONE
    after = await overview(pipeline, keys=keys)
    assert (before.open_dead_letters, after.open_dead_letters) == (2, 1)
    assert (before.quarantined, after.quarantined) == (2, 1)
    assert (before.scheduled, after.scheduled, after.erased_scheduled) == (2, 1, 1)
    # Whoever had one of them in hand has lost it, and all others can be settled.
    lost = await settle_as(await reader_of(pipeline, keys), pipeline, keys, *((lease, Ack()) for lease in in_hand))
    assert {lease.fields[b"tenant_id"] for lease in lost} == {GOES.encode()}
    assert len(lost) == 3


async def test_a_refused_request_whose_release_was_broken_off_goes_with_the_word_of_it(
    stream: EventStream, pipeline: Pipeline, keys: Keys, client: Any, erasing: Erasing, log: LogSettings, home: Path
) -> None:
    await stream.quarantine(a_refused_request(tenant_id=GOES), cap=1000, cap_bytes=10**6)
    requests = QuarantinedRequests.open(log, home=home)
    begun = [requests.begin_release(request.id, by="me@here") for request in requests.entries(LetterFilter())]
    requests.close()

    erasing.erase(Chosen(GOES))

    assert begun == [BEGUN]
    assert (await overview(pipeline, keys=keys)).quarantined == 0
    assert [client.exists(keys.quarantine_state(shard)) for shard in keys.all_shards()] == [0, 0]


@pytest.mark.fault("F2")
async def test_what_was_erased_is_no_loss_to_a_group_and_its_numbers_are_written_down(
    stream: EventStream, pipeline: Pipeline, keys: Keys, client: Any, archive_log: ArchiveLog, erasing: Erasing
) -> None:
    await fill(stream, pipeline, keys, client)
    archive_all(archive_log)
    await janitor.trim(pipeline, keys=keys)

    erased = erasing.erase(Chosen(GOES))
    await janitor.trim(pipeline, keys=keys)

    found = await overview(pipeline, keys=keys)
    assert [state.lost for state in found.groups] == [0, 0]
    ranges = [(name, last) for shard in keys.all_shards() for name, last in client.hgetall(keys.erased(shard)).items()]
    assert sum(int(last) - int(name.rpartition(b"|")[2]) + 1 for name, last in ranges) == erased["events"] >= 5


async def test_what_somebody_else_removed_before_is_a_loss_all_the_same(
    stream: EventStream, pipeline: Pipeline, keys: Keys, client: Any, archive_log: ArchiveLog, erasing: Erasing
) -> None:
    reader = await reader_of(pipeline, keys)
    events = [an_event(tenant_id=tenant) for tenant in (GOES, STAYS, STAYS)]
    receipts = [await stream.append(event) for event in events]
    await janitor.trim(pipeline, keys=keys)
    archive_all(archive_log)
    # Another shard may have given the same entry id in the same millisecond.
    removed = sum(client.xdel(key, receipts[1].entry_id) for key in keys.event_streams(keys.shard_of(events[1])))
    assert removed == 1

    erasing.erase(Chosen(GOES))
    await janitor.trim(pipeline, keys=keys)

    found = await overview(pipeline, keys=keys)
    assert [state.lost for state in found.groups if state.group == reader.group] == [1]


async def test_what_is_not_archived_is_left_alone(stream: EventStream, archive_log: ArchiveLog, erasing: Erasing) -> None:
    await stream.append(an_event(tenant_id=GOES))
    archive_all(archive_log)
    await stream.append(an_event(tenant_id=GOES))

    assert erasing.erase(Chosen(GOES)) == Counter({"events": 1})
    assert erasing.count(Chosen(GOES)) == Counter({"events": 1})


async def test_one_source_and_one_event_can_be_chosen(stream: EventStream, archive_log: ArchiveLog, erasing: Erasing) -> None:
    events = [an_event(tenant_id=GOES, source=source) for source in ("a", "a", "b")]
    for event in events:
        await stream.append(event)
    archive_all(archive_log)

    assert erasing.count(Chosen(GOES, "a")) == Counter({"events": 2})
    assert erasing.count(Chosen(source="b")) == Counter({"events": 1})
    assert erasing.count(Chosen(GOES, "b", {events[0].id})) == Counter()
    assert erasing.erase(Chosen(event_ids={events[0].id, "another"})) == Counter({"events": 1})
    assert erasing.count(Chosen(GOES)) == Counter({"events": 2})


def test_who_names_nothing_has_chosen_nothing(erasing: Erasing, client: Any, keys: Keys) -> None:
    client.xadd(keys.events(0, "default"), {"a": "b"})

    assert erasing.count(Chosen()) == Counter()
    assert erasing.count(Chosen(GOES)) == Counter()


async def test_a_letter_goes_with_what_was_decided_about_it(
    stream: EventStream, pipeline: Pipeline, keys: Keys, client: Any, erasing: Erasing, log: LogSettings, home: Path
) -> None:
    reader = await reader_of(pipeline, keys)
    await stream.append(an_event(tenant_id=GOES))
    await settle_as(reader, pipeline, keys, *((lease, GIVE_UP) for lease in await read_all(reader)))
    letters = DeadLetters.open(log, home=home)
    letters.discard(next(letters.letters()), by="me@here", because="somebody's name")
    letters.close()

    assert erasing.erase(Chosen(GOES))["dead"] == 2
    assert sum(client.xlen(keys.dead(shard)) for shard in keys.all_shards()) == 0
    assert sum(client.hlen(keys.dead_state(shard)) for shard in keys.all_shards()) == 0
    assert (await overview(pipeline, keys=keys)).open_dead_letters == 0


async def test_an_erased_delivery_that_is_sent_again_is_a_duplicate(stream: EventStream, archive_log: ArchiveLog, erasing: Erasing) -> None:
    event = an_event(tenant_id=GOES)
    await stream.append(event)
    archive_all(archive_log)
    erasing.erase(Chosen(GOES))

    assert (await stream.append(event)).duplicate


def test_a_record_says_who_erased_what_and_is_no_purge(erasing: Erasing, log: LogSettings, home: Path) -> None:
    for _ in range(2):
        erasing.record(by="me@here", name="one", facts={"tenant": GOES, "log:events": 8})
    erasing.record(by="you@there", name="two", facts={"tenant": STAYS})

    second, first = erasing.history()

    assert (first.by, first.facts) == ("me@here", {"tenant": GOES, "log:events": "8"})
    assert second.by == "you@there"
    purging = Purging.open(log, home=home)
    assert purging.history() == []
    purging.close()


@pytest.fixture
def plain_dumps(client: Any) -> Iterator[None]:
    """Compressed, a dump has some words in two pieces: which ones depends on the event ids, and so on the hour."""
    everywhere = {"target_nodes": RedisCluster.ALL_NODES} if isinstance(client, RedisCluster) else {}
    client.config_set("rdbcompression", "no", **everywhere)
    yield
    client.config_set("rdbcompression", "yes", **everywhere)


@pytest.mark.usefixtures("plain_dumps")
async def test_a_rebuilt_stream_is_the_same_and_has_no_bytes_of_what_was_deleted(
    stream: EventStream, pipeline: Pipeline, keys: Keys, client: Any, archive_log: ArchiveLog, erasing: Erasing
) -> None:
    in_hand = await fill(stream, pipeline, keys, client)
    archive_all(archive_log)
    erasing.erase(Chosen(GOES))
    streams = [key for shard in keys.all_shards() for key in (*keys.event_streams(shard), keys.retry(shard, "g"), keys.dead(shard))]
    there = [key for key in streams if client.exists(key)]
    before = [state_of(client, key) for key in there]
    assert any(GOES.encode() in client.dump(key) for key in there)

    assert erasing.rebuild() == {}

    assert [state_of(client, key) for key in there] == before
    assert not any(GOES.encode() in client.dump(key) for key in there)
    await janitor.trim(pipeline, keys=keys)
    assert [state.lost for state in (await overview(pipeline, keys=keys)).groups] == [0, 0]
    lost = await settle_as(await reader_of(pipeline, keys), pipeline, keys, *((lease, Ack()) for lease in in_hand))
    assert {lease.fields[b"tenant_id"] for lease in lost} == {GOES.encode()}


def state_of(client: Any, key: str) -> Any:
    """Everything that a stream is, but for how long deliveries have waited."""
    info = client.xinfo_stream(key)
    about = [info[name] for name in ("length", "last-generated-id", "entries-added", "max-deleted-entry-id")]
    groups = client.xinfo_groups(key)
    pending = [
        [(one["message_id"], one["consumer"], one["times_delivered"]) for one in client.xpending_range(key, group["name"], "-", "+", 100)]
        for group in groups
    ]
    return about, groups, pending, client.xrange(key)
