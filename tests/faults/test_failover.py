"""Sentinels and clusters choose another primary while events are sent: nothing that was accepted is lost, and it heals by itself."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from infra.settings import LogSettings
from infra.streams import connection, sentinel
from infra.streams.keys import Keys
from infra.streams.sentinel import Word
from infra.streams.stream import EventStream
from schemas.receipt import Receipt
from tests.contracts.clusters import ClusterNode, EmbeddedCluster, wait_until
from tests.contracts.sentinels import SentinelSet
from tests.events import an_event
from tests.faults.broken.receiver_answers_first import append_later
from tests.ports import free_port
from tests.processors.waiting import until
from tests.sending import accepted_of, until_appended

PASSWORD = "a-test-password"
STREAM = Keys("hooklake:", 1).events(0, "default")
SENDERS = 8


@pytest.fixture
def watched(tmp_path: Path) -> Iterator[SentinelSet]:
    server = SentinelSet(tmp_path / "watched", free_port(), PASSWORD)
    try:
        server.start()
        yield server
    finally:
        server.kill()


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[EmbeddedCluster]:
    server = EmbeddedCluster(tmp_path / "cluster", free_port(), PASSWORD, options={"cluster-node-timeout": "1000"})
    try:
        server.start()
        yield server
    finally:
        server.kill()


@pytest.fixture
async def open_stream(home: Path) -> AsyncIterator[Callable[[str], EventStream]]:
    """Streams of one shard on a log that is replicated, by its address."""
    opened: list[EventStream] = []

    def open_one(url: str) -> EventStream:
        log = LogSettings(url=url, durability="replicated", timeout_ms=3000, shards=1)
        opened.append(EventStream.open(log, home=home))
        return opened[-1]

    yield open_one
    for stream in opened:
        await stream.close()


async def send_through(fault: Callable[[], None], *, stream: EventStream, many: int) -> list[Receipt]:
    """Receipts of at least `many` events that were accepted before the fault, and as many after it."""
    accepted: list[Receipt] = []
    is_enough = asyncio.Event()

    async def send() -> None:
        while not is_enough.is_set():
            accepted.append(await until_appended(stream, an_event()))

    async with asyncio.TaskGroup() as tasks:
        for _ in range(SENDERS):
            tasks.create_task(send())
        await until(lambda: len(accepted) >= many)
        await asyncio.to_thread(fault)
        enough = len(accepted) + many
        await until(lambda: len(accepted) >= enough)
        is_enough.set()
    return accepted


def assert_nothing_is_lost(accepted: list[Receipt], *, ask: Callable[..., Any]) -> None:
    """All of it is in the stream, once, and the numbers of each incarnation have no gap."""
    entries: list[dict[bytes, bytes]] = [fields for _, fields in ask("XRANGE", STREAM, "-", "+")]
    ids = [fields[b"id"].decode() for fields in entries]
    numbers: dict[bytes, list[int]] = {}
    for fields in entries:
        numbers.setdefault(fields[b"incarnation"], []).append(int(fields[b"sequence"]))

    assert {receipt.event_id for receipt in accepted} <= set(ids)
    assert len(ids) == len(set(ids))
    assert all(given == list(range(1, len(given) + 1)) for given in numbers.values())
    assert len(numbers) >= 2


@pytest.mark.fault("C1")
async def test_no_accepted_event_is_lost_when_sentinels_replace_a_killed_primary(
    watched: SentinelSet, open_stream: Callable[[str], EventStream], times: int
) -> None:
    old = watched.primary

    accepted = await send_through(old.kill, stream=open_stream(watched.url), many=100 * times)

    assert watched.primary is not old
    assert_nothing_is_lost(accepted, ask=watched.primary.ask)


@pytest.mark.control("C1")
async def test_whoever_stays_with_the_primary_that_was_found_first_never_sends_again(
    monkeypatch: pytest.MonkeyPatch, watched: SentinelSet, open_stream: Callable[[str], EventStream]
) -> None:
    found_first = await sentinel.find_primary(watched.url, within_ms=5000)

    async def find_the_same(url: str, *, within_ms: int) -> Word:
        return found_first

    monkeypatch.setattr(sentinel, "find_primary", find_the_same)
    monkeypatch.setattr("tests.sending.DEADLINE_S", 5.0)

    with pytest.raises(ExceptionGroup) as failures:
        await test_no_accepted_event_is_lost_when_sentinels_replace_a_killed_primary(watched, open_stream, times=1)
    assert {type(failure) for failure in failures.value.exceptions} == {TimeoutError}


@pytest.mark.fault("C1")
async def test_no_accepted_event_is_lost_when_a_cluster_replaces_a_killed_primary(
    cluster: EmbeddedCluster, open_stream: Callable[[str], EventStream], times: int
) -> None:
    replicas = [cluster.add_replica() for _ in range(2)]  # one takes over, the other follows it

    accepted = await send_through(cluster.nodes[0].kill, stream=open_stream(cluster.url), many=100 * times)

    (primary,) = [replica for replica in replicas if is_primary(replica)]
    assert_nothing_is_lost(accepted, ask=primary.ask)


def is_primary(node: ClusterNode) -> bool:
    return bool(node.ask("INFO", "replication")["role"] == "master")


def signal_all(nodes: list[ClusterNode], how: signal.Signals) -> None:
    for node in nodes:
        os.kill(node.pid, how)


@pytest.mark.fault("C3")
async def test_a_primary_that_is_cut_off_with_its_client_accepts_nothing_that_is_lost_when_it_comes_back(
    cluster: EmbeddedCluster, open_stream: Callable[[str], EventStream], times: int
) -> None:
    """Whoever is on the other side hangs, and then this side does: so neither hears of the other while they are apart."""
    replica, (cut_off, *others) = cluster.add_replica(), cluster.nodes
    stream, during = open_stream(cluster.url), [an_event() for _ in range(10 * times)]
    accepted = [await until_appended(stream, an_event()) for _ in range(10)]
    before = len(accepted)

    cut_off.ask("CONFIG SET", "cluster-allow-reads-when-down", "yes")  # only for a look at what it has
    signal_all([replica, *others], signal.SIGSTOP)
    cut_off.ask("CLIENT KILL", "TYPE", "replica")  # or the kernel would keep for the replica what it is sent
    accepted += await accepted_of(during, stream=stream)
    known = {receipt.event_id for receipt in accepted}
    wait_until(lambda: cut_off.ask("CLUSTER INFO")["cluster_state"] == "fail")
    assert len(cut_off.ask("XRANGE", STREAM, "-", "+")) > before  # so that there is something to lose
    signal_all([cut_off], signal.SIGSTOP)
    signal_all([replica, *others], signal.SIGCONT)
    await asyncio.to_thread(wait_until, lambda: is_primary(replica))
    signal_all([cut_off], signal.SIGCONT)
    await asyncio.to_thread(wait_until, lambda: cut_off.ask("INFO", "replication").get("master_link_status") == "up")

    accepted += [await until_appended(stream, event) for event in during if event.id not in known]
    assert_nothing_is_lost(accepted, ask=replica.ask)


@pytest.mark.control("C3")
async def test_a_primary_that_is_cut_off_and_asks_no_replica_loses_what_it_accepts(
    monkeypatch: pytest.MonkeyPatch, cluster: EmbeddedCluster, open_stream: Callable[[str], EventStream]
) -> None:
    monkeypatch.setattr(connection, "confirmation_of", lambda log: None)

    with pytest.raises(AssertionError, match=r"\} <= \{"):
        await test_a_primary_that_is_cut_off_with_its_client_accepts_nothing_that_is_lost_when_it_comes_back(cluster, open_stream, times=1)


@pytest.mark.fault("C8")
async def test_a_cluster_that_has_lost_its_majority_accepts_nothing_and_goes_on_when_it_is_back(
    cluster: EmbeddedCluster, home: Path
) -> None:
    stream = EventStream.open(LogSettings(url=cluster.url, timeout_ms=2000, shards=1), home=home)
    first, *others = cluster.nodes
    accepted = [await until_appended(stream, an_event()) for _ in range(10)]

    for node in others:
        await asyncio.to_thread(node.kill)
    await asyncio.to_thread(wait_until, lambda: first.ask("CLUSTER INFO")["cluster_state"] == "fail")
    accepted += await accepted_of([an_event() for _ in range(10)], stream=stream)
    for node in others:
        await asyncio.to_thread(node.start)
    await asyncio.to_thread(wait_until, lambda: all(node.is_whole() for node in cluster.nodes))
    accepted.append(await until_appended(stream, an_event()))
    await stream.close()

    stored = {fields[b"id"].decode() for _, fields in first.ask("XRANGE", STREAM, "-", "+")}
    assert {receipt.event_id for receipt in accepted} <= stored
    assert len(accepted) == 11


@pytest.mark.control("C8")
async def test_whoever_answers_first_accepts_what_a_cluster_without_majority_never_got(
    monkeypatch: pytest.MonkeyPatch, cluster: EmbeddedCluster, home: Path
) -> None:
    monkeypatch.setattr(EventStream, "append", append_later)

    with pytest.raises(AssertionError, match=r"\} <= \{"):
        await test_a_cluster_that_has_lost_its_majority_accepts_nothing_and_goes_on_when_it_is_back(cluster, home)
