"""An event of the future is accepted at once, waits by the server's clock, and is then appended like any other."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

from infra.clock import Clock
from infra.running.embedded import EmbeddedServer
from infra.settings import LogSettings
from infra.streams.connection import open_pipeline
from infra.streams.delayed import bring_forward, promote_due
from infra.streams.entries import decode
from infra.streams.keys import Keys
from infra.streams.overview import overview
from infra.streams.pipelining import Pipeline
from infra.streams.ranges import ArchiveLog
from infra.streams.stream import EventStream
from tests.events import an_event
from tests.infra.streams.deliveries import make_due, read_one, reader_of
from tests.infra.streams.raw import open_raw

SOON = timedelta(hours=1)
HOUR_MS = 3_600_000


async def test_an_event_of_the_future_is_seen_by_no_group_before_its_time(
    stream: EventStream, pipeline: Pipeline, keys: Keys, client: Any
) -> None:
    reader, event = await reader_of(pipeline, keys), an_event()

    receipt = await stream.append(event, deliver_at=Clock().now() + SOON)

    assert (receipt.scheduled, receipt.duplicate, receipt.event_id, receipt.entry_id, receipt.sequence) == (True, False, event.id, "", 0)
    assert await promote_due(pipeline, keys=keys) == 0
    assert await reader.read(budget=100, block_ms=20) == []
    await bring_forward(pipeline, keys=keys, by_ms=HOUR_MS + 1000)
    assert await promote_due(pipeline, keys=keys) == 1
    lease = await read_one(reader)
    assert decode(lease.fields) == event
    assert (lease.stream, lease.fields[b"sequence"]) == (keys.events(lease.shard, "default"), b"1")
    assert client.exists(keys.delayed(lease.shard), keys.delayed_bodies(lease.shard)) == 0


async def test_a_time_that_has_passed_means_now(stream: EventStream) -> None:
    receipt = await stream.append(an_event(), deliver_at=Clock().now() - SOON)

    assert (receipt.scheduled, receipt.sequence) == (False, 1)


async def test_numbers_stay_gapless_over_scheduled_events(stream: EventStream, pipeline: Pipeline, keys: Keys) -> None:
    await stream.append(an_event(key="one shard"))
    await stream.append(an_event(key="one shard"), deliver_at=Clock().now() + SOON)
    await stream.append(an_event(key="one shard"))
    await bring_forward(pipeline, keys=keys, by_ms=2 * HOUR_MS)
    await promote_due(pipeline, keys=keys)

    last = await stream.append(an_event(key="one shard"))

    reader = await reader_of(pipeline, keys)
    assert [lease.fields[b"sequence"] for lease in await reader.read(budget=500, block_ms=1000)] == [b"1", b"2", b"3", b"4"]
    assert last.sequence == 4


async def test_a_duplicate_is_recognised_while_the_first_waits_and_after(stream: EventStream, pipeline: Pipeline, keys: Keys) -> None:
    event = an_event(delivery_id="d1")
    await stream.append(event, deliver_at=Clock().now() + SOON)

    waiting = [
        await stream.append(an_event(delivery_id="d1")),
        await stream.append(an_event(delivery_id="d1"), deliver_at=Clock().now() + SOON),
    ]
    await bring_forward(pipeline, keys=keys, by_ms=2 * HOUR_MS)
    await promote_due(pipeline, keys=keys)
    after = await stream.append(an_event(delivery_id="d1"))

    assert {(receipt.duplicate, receipt.event_id) for receipt in [*waiting, after]} == {(True, event.id)}
    assert [receipt.scheduled for receipt in [*waiting, after]] == [True, True, False]
    reader = await reader_of(pipeline, keys)
    lease = await read_one(reader)
    assert after.entry_id == lease.entry_id


async def test_another_body_under_the_same_delivery_id_is_a_conflict_also_while_the_first_waits(
    stream: EventStream, pipeline: Pipeline, keys: Keys
) -> None:
    await stream.append(an_event(delivery_id="d1"), deliver_at=Clock().now() + SOON)

    other = await stream.append(an_event(delivery_id="d1", payload=b"other"), deliver_at=Clock().now() + SOON)

    assert (other.conflict, other.scheduled) == (True, True)
    await bring_forward(pipeline, keys=keys, by_ms=2 * HOUR_MS)
    assert await promote_due(pipeline, keys=keys) == 2
    reader = await reader_of(pipeline, keys)
    assert sorted(lease.fields[b"conflict"] for lease in await reader.read(budget=500, block_ms=1000)) == [b"0", b"1"]
    again = await stream.append(an_event(delivery_id="d1", payload=b"other"))
    assert (again.duplicate, again.event_id) == (True, other.event_id)


async def test_the_books_balance_before_and_after_its_time(
    stream: EventStream, pipeline: Pipeline, keys: Keys, log: LogSettings, home: Path
) -> None:
    await stream.append(an_event())
    for _ in range(3):
        await stream.append(an_event(), deliver_at=Clock().now() + SOON)

    before_archive = await overview(pipeline, keys=keys)
    archive_log = ArchiveLog.open(log, home=home)
    archive_log.ends()
    waiting = await overview(pipeline, keys=keys)
    await bring_forward(pipeline, keys=keys, by_ms=2 * HOUR_MS)
    archive_log.ends()  # the archive promotes too: there may be no worker
    archive_log.close()
    after = await overview(pipeline, keys=keys)

    assert (before_archive.accepted, before_archive.scheduled, before_archive.above_archived) == (4, 3, 1)
    assert (waiting.accepted, waiting.scheduled, waiting.above_archived, waiting.waiting_retries) == (4, 3, 1, 0)
    assert (after.accepted, after.scheduled, after.above_archived) == (4, 0, 4)
    assert before_archive.out_of_balance == waiting.out_of_balance == after.out_of_balance == 0


async def test_a_scheduled_event_that_is_gone_is_counted_as_lost_and_can_be_sent_again(
    stream: EventStream, pipeline: Pipeline, keys: Keys, client: Any
) -> None:
    event = an_event(delivery_id="d1", key="one shard")
    await stream.append(event, deliver_at=Clock().now() + SOON)
    await stream.append(an_event(key="one shard"), deliver_at=Clock().now() + SOON)
    shard = keys.shard_of(event)
    client.hdel(keys.delayed_bodies(shard), client.zrange(keys.delayed(shard), 0, 0)[0])
    make_due(client, keys.delayed(shard))

    moved = await promote_due(pipeline, keys=keys)

    found = await overview(pipeline, keys=keys)
    assert (moved, found.scheduled, found.lost, found.out_of_balance) == (1, 0, 1, 0)
    assert (await stream.append(an_event(delivery_id="d1", key="one shard"))).duplicate is False
    await stream.append(an_event(key="one shard"), deliver_at=Clock().now() + SOON)
    client.delete(keys.delayed(shard))
    found = await overview(pipeline, keys=keys)
    assert (found.scheduled, found.lost, found.out_of_balance) == (0, 2, 0)


async def test_a_restart_of_the_server_begins_the_numbers_of_promoted_events_anew(
    own_server: EmbeddedServer, own_log: LogSettings, home: Path
) -> None:
    keys, stream, pipeline = Keys(own_log.prefix, 1), EventStream.open(own_log, home=home), open_pipeline(own_log, home=home)
    first = await stream.append(an_event())
    await stream.append(an_event(delivery_id="d1"), deliver_at=Clock().now() + SOON)
    own_server.kill()
    own_server.start()
    client = open_raw(own_log, home=home)
    make_due(client, keys.delayed(0))
    await pipeline.close()
    pipeline = open_pipeline(own_log, home=home)

    assert await promote_due(pipeline, keys=keys) == 1  # the first thing that happens after the restart

    (_, before), (entry_id, promoted) = client.xrange(keys.events(0, "default"))
    assert (before[b"incarnation"].decode(), before[b"sequence"]) == (first.incarnation, b"1")
    assert (promoted[b"incarnation"] != before[b"incarnation"], promoted[b"sequence"]) == (True, b"1")
    await stream.close()
    stream = EventStream.open(own_log, home=home)
    again = await stream.append(an_event(delivery_id="d1"))
    assert (again.duplicate, again.entry_id, again.incarnation) == (True, entry_id.decode(), promoted[b"incarnation"].decode())
    assert (await stream.append(an_event())).sequence == 2
    client.close()
    await stream.close()
    await pipeline.close()


async def test_a_scheduled_event_is_appended_when_the_servers_memory_is_full(
    own_server: EmbeddedServer, own_log: LogSettings, home: Path
) -> None:
    keys, stream, pipeline = Keys(own_log.prefix, 1), EventStream.open(own_log, home=home), open_pipeline(own_log, home=home)
    client = open_raw(own_log, home=home)
    await stream.append(an_event(), deliver_at=Clock().now() + SOON)
    make_due(client, keys.delayed(0))
    client.config_set("maxmemory", 1)

    assert await promote_due(pipeline, keys=keys) == 1

    assert client.xlen(keys.events(0, "default")) == 1
    client.close()
    await stream.close()
    await pipeline.close()
