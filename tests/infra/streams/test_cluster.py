"""What only a cluster does: its slots move and its nodes fail one by one, while events go on."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest

from infra.settings import LogSettings
from infra.streams import groups
from infra.streams.connection import open_blocking, open_pipeline
from infra.streams.delayed import count_waiting, promote_due
from infra.streams.incarnations import Incarnations
from infra.streams.keys import Keys
from infra.streams.pipelining import Pipeline
from infra.streams.positions import StreamName
from infra.streams.probe import refuse_unfit
from infra.streams.ranges import ArchiveLog
from infra.streams.settle import Ack, RetryLater
from infra.streams.slots import slot_of_key
from infra.streams.stream import EventStream
from schemas.errors import ConfigError, StreamUnavailable
from schemas.event import StreamEvent
from schemas.receipt import Receipt
from tests.contracts.clusters import ClusterNode, EmbeddedCluster, SlotMove, wait_until
from tests.events import an_event
from tests.faults.breaking import break_script
from tests.infra.streams.deliveries import make_due, read_one, reader_of, settle_as
from tests.ports import free_port
from tests.sending import until_appended

PASSWORD = "a-test-password"


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[EmbeddedCluster]:
    server = EmbeddedCluster(tmp_path / "cluster", free_port(), PASSWORD)
    try:
        server.start()
        yield server
    finally:
        server.kill()


@pytest.fixture
def log(cluster: EmbeddedCluster) -> LogSettings:
    return LogSettings(url=cluster.url, timeout_ms=2000)


@pytest.fixture
async def stream(log: LogSettings, home: Path) -> AsyncIterator[EventStream]:
    opened = EventStream.open(log, home=home)
    yield opened
    await opened.close()


@pytest.fixture
def move(cluster: EmbeddedCluster, keys: Keys) -> SlotMove:
    """The slot of shard 0, from the first node to the second."""
    return SlotMove(slot_of_key(keys.ledger(0)), cluster.nodes[0], cluster.nodes[1])


def an_event_of(shard: int, *, keys: Keys) -> StreamEvent:
    return next(event for event in iter(an_event, None) if keys.shard_of(event) == shard)


def stored(client: Any, keys: Keys) -> list[dict[bytes, bytes]]:
    streams = [name for shard in keys.all_shards() for name in keys.event_streams(shard)]
    return [fields for name in streams for _, fields in client.xrange(name)]


@pytest.mark.fault("C7")
async def test_no_event_is_lost_or_doubled_while_the_slot_of_its_shard_moves(
    stream: EventStream, keys: Keys, client: Any, move: SlotMove
) -> None:
    sent: list[Receipt] = []
    is_under_way, has_moved = asyncio.Event(), asyncio.Event()

    async def send() -> None:
        while not has_moved.is_set():
            sent.append(await until_appended(stream, an_event()))
            if len(sent) == 200:
                is_under_way.set()
        sent.append(await until_appended(stream, an_event_of(0, keys=keys)))

    senders = [asyncio.create_task(send()) for _ in range(8)]
    await is_under_way.wait()
    await asyncio.to_thread(move.begin)
    while await asyncio.to_thread(move.move_some):
        pass
    await asyncio.to_thread(move.end)
    has_moved.set()
    await asyncio.gather(*senders)

    entries = stored(client, keys)
    assert sorted(fields[b"id"].decode() for fields in entries) == sorted(receipt.event_id for receipt in sent)
    assert {receipt.duplicate for receipt in sent} == {False}
    numbers: dict[bytes, list[int]] = {}
    for fields in entries:
        numbers.setdefault(fields[b"incarnation"], []).append(int(fields[b"sequence"]))
    assert all(given == list(range(1, len(given) + 1)) for given in numbers.values())
    # The node that has shard 0 now has another replication id: it began an incarnation of its own.
    assert len(numbers) == 5


@pytest.mark.fault("B12")
async def test_a_key_that_has_moved_before_its_slot_is_asked_for_where_it_is(
    stream: EventStream, pipeline: Pipeline, keys: Keys, move: SlotMove
) -> None:
    receipt = await stream.append(an_event_of(0, keys=keys))
    move.begin()
    move.move_key(keys.ledger(0))

    # Together with others, on the same connection: ASKING is good for one command only.
    replies = await asyncio.gather(*[pipeline.call("HGET", keys.ledger(shard), "incarnation") for shard in (0, 1, 2, 3) for _ in range(20)])

    assert set(replies[:20]) == {receipt.incarnation.encode()}
    assert await pipeline.call("XLEN", keys.events(0, "default")) == 1


@pytest.mark.fault("B12")
async def test_commands_follow_a_slot_that_has_moved(
    stream: EventStream, pipeline: Pipeline, keys: Keys, log: LogSettings, home: Path, move: SlotMove
) -> None:
    archive_log = ArchiveLog.open(log, home=home)
    reader = await reader_of(pipeline, keys)
    await stream.append(an_event_of(0, keys=keys))
    lease = await read_one(reader)
    archive_log.ends()

    move.begin()
    move.move_some(most=1000)
    move.end()

    assert await settle_as(reader, pipeline, keys, (lease, Ack())) == []
    assert [end.last.entry_id for end in archive_log.ends() if end.stream.shard == 0 and end.last.entry_id != "0-0"] == [lease.entry_id]
    archive_log.close()


async def test_a_command_that_was_meant_for_one_connection_does_not_follow(pipeline: Pipeline, keys: Keys, move: SlotMove) -> None:
    _, generation = await Incarnations(pipeline, keys=keys).of(0)
    move.begin()
    move.move_some(most=1000)
    move.end()

    with pytest.raises(StreamUnavailable, match="is moving to"):
        await pipeline.run("note", keys=[keys.ledger(0)], args=["a", 1], generation=generation)

    assert await pipeline.connect(keys.ledger(0)) != generation


@pytest.mark.fault("C7")
async def test_a_retry_that_is_due_while_its_slot_moves_is_not_lost(
    stream: EventStream, pipeline: Pipeline, keys: Keys, client: Any, move: SlotMove
) -> None:
    reader = await reader_of(pipeline, keys)
    event = an_event_of(0, keys=keys)
    await stream.append(event)
    await settle_as(reader, pipeline, keys, (await read_one(reader), RetryLater(1000, 1)))
    make_due(client, keys.delayed(0))

    move.begin()
    move.move_key(keys.retry(0, "g"))
    with pytest.raises(StreamUnavailable, match="non local key"):
        await promote_due(pipeline, keys=keys)
    for key in (keys.delayed(0), keys.delayed_bodies(0), keys.ledger(0)):
        move.move_key(key)
    with pytest.raises(StreamUnavailable, match="is moving to"):
        await promote_due(pipeline, keys=keys)
    move.move_some(most=1000)
    move.end()

    assert await count_waiting(pipeline, keys=keys) == 1
    assert await promote_due(pipeline, keys=keys) == 1
    assert (await read_one(reader)).fields[b"id"].decode() == event.id


@pytest.mark.control("C7")
async def test_a_promotion_that_does_not_look_where_it_writes_loses_what_is_due(
    monkeypatch: pytest.MonkeyPatch, stream: EventStream, pipeline: Pipeline, keys: Keys, client: Any, move: SlotMove
) -> None:
    break_script(monkeypatch, "promote", ("redis.call('EXISTS', is_scheduled and", "tostring(is_scheduled and"))

    with pytest.raises(AssertionError, match="0 == 1"):
        await test_a_retry_that_is_due_while_its_slot_moves_is_not_lost(stream, pipeline, keys, client, move)


async def test_a_node_that_dies_takes_its_own_shards_only_and_comes_back_by_itself(
    cluster: EmbeddedCluster, stream: EventStream, keys: Keys
) -> None:
    for node in cluster.nodes:
        node.ask("CONFIG SET", "cluster-require-full-coverage", "no")
    before = {shard: await stream.append(an_event_of(shard, keys=keys)) for shard in keys.all_shards()}
    cluster.nodes[2].kill()

    for _ in range(20):
        with pytest.raises(StreamUnavailable):
            await stream.append(an_event_of(3, keys=keys))
        assert (await stream.append(an_event_of(0, keys=keys))).incarnation == before[0].incarnation
    await asyncio.to_thread(cluster.nodes[2].start)

    after = await until_appended(stream, an_event_of(3, keys=keys))
    assert (after.sequence, after.incarnation != before[3].incarnation) == (1, True)


@pytest.fixture
def replica(cluster: EmbeddedCluster) -> ClusterNode:
    """Of the first node."""
    return cluster.add_replica()


def offset_of(node: ClusterNode) -> int:
    return int(node.ask("INFO", "replication")["master_repl_offset"])


async def test_a_replica_that_takes_over_begins_an_incarnation_before_it_gets_an_event(
    cluster: EmbeddedCluster, replica: ClusterNode, stream: EventStream, keys: Keys, log: LogSettings, home: Path
) -> None:
    """It may lack what the primary had last: numbers that the primary gave must not be given again."""
    archive_log = ArchiveLog.open(log, home=home)
    event = an_event_of(0, keys=keys)
    before = await stream.append(event)
    archive_log.ends()
    wait_until(
        lambda: (
            replica.ask("INFO", "replication")["master_repl_offset"] == cluster.nodes[0].ask("INFO", "replication")["master_repl_offset"]
        )
    )
    cluster.nodes[0].kill()

    after, again = await until_appended(stream, an_event_of(0, keys=keys)), await stream.append(event)

    assert (after.incarnation != before.incarnation, after.sequence) == (True, 1)
    assert (again.duplicate, again.event_id) == (True, event.id)
    with pytest.raises(StreamUnavailable):  # its connection was to the node that is gone; nothing is sent twice by itself
        archive_log.ends()
    (end,) = [end for end in archive_log.ends() if end.stream == StreamName(0, "default")]
    archive_log.close()
    assert (end.incarnation, end.last.entry_id) == (after.incarnation, after.entry_id)


async def test_any_node_that_the_address_names_tells_where_the_others_are(
    cluster: EmbeddedCluster, log: LogSettings, keys: Keys, home: Path
) -> None:
    nobody, third = free_port(), cluster.nodes[2].port
    log = log.model_copy(update={"url": f"redis+cluster://:{PASSWORD}@127.0.0.1:{nobody},127.0.0.1:{third}"})
    stream = EventStream.open(log, home=home)

    receipt = await stream.append(an_event_of(0, keys=keys))
    with open_blocking(log, home=home) as client:
        assert client.xlen(keys.events(0, "default")) == receipt.sequence == 1

    await stream.close()


async def test_a_cluster_of_which_nobody_answers_is_unavailable(
    cluster: EmbeddedCluster, log: LogSettings, stream: EventStream, home: Path
) -> None:
    cluster.kill()

    with pytest.raises(StreamUnavailable, match="can be asked"):
        await stream.append(an_event())
    with pytest.raises(StreamUnavailable):
        open_blocking(log, home=home)


async def test_a_server_that_is_no_cluster_is_unavailable_as_one(log_server: Any, home: Path) -> None:
    pipeline = open_pipeline(LogSettings(url=log_server.url.replace("redis://", "redis+cluster://")), home=home)

    with pytest.raises(StreamUnavailable, match="cluster support disabled"):
        await pipeline.call("PING")

    await pipeline.close()


def test_every_primary_has_to_be_fit_to_hold_events(cluster: EmbeddedCluster, log: LogSettings, home: Path) -> None:
    unfit = cluster.nodes[1]
    unfit.ask("CONFIG SET", "appendfsync", "everysec")

    with (
        open_blocking(log, home=home) as client,
        pytest.raises(ConfigError, match=f"the server at 127.0.0.1:{unfit.port}'s appendfsync is everysec"),
    ):
        refuse_unfit(client, log=log)


def test_a_node_is_refused_where_the_address_says_that_it_is_alone(cluster: EmbeddedCluster, home: Path) -> None:
    alone = LogSettings(url=cluster.nodes[0].url)

    with open_blocking(alone, home=home) as client, pytest.raises(ConfigError, match=r"begin the address with redis\+cluster://"):
        refuse_unfit(client, log=alone)


async def test_a_worker_declares_its_group_on_every_node(pipeline: Pipeline, keys: Keys, client: Any) -> None:
    created = await groups.declare(pipeline, keys=keys, group="g")

    assert created == 6 * keys.shards
    assert {client.xinfo_groups(keys.events(shard, "default"))[0]["name"] for shard in keys.all_shards()} == {b"g"}
