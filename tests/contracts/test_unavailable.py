"""A server that is in no state to answer is StreamUnavailable, in time and for both clients, and serves again by itself."""

from __future__ import annotations

import asyncio
import os
import signal
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
import redis

from infra.running.embedded import EmbeddedServer
from infra.settings import LogSettings
from infra.streams.connection import open_pipeline
from infra.streams.keys import Keys
from infra.streams.ranges import ArchiveLog
from infra.streams.stream import EventStream
from schemas.errors import StreamUnavailable
from tests.contracts.clusters import EmbeddedCluster
from tests.contracts.servers import ServerKind
from tests.events import an_event
from tests.faults.proxy import Proxy
from tests.ports import free_port

DEADLINE_S = 20.0
AGAIN_S = 0.02
"""How soon something is asked again that a deadline waits for."""


@pytest.fixture
def stream(own_stream: EventStream) -> EventStream:
    return own_stream


@pytest.fixture
def archive_log(own_archive_log: ArchiveLog) -> ArchiveLog:
    return own_archive_log


@pytest.fixture
def operator(own_client: Any) -> Any:
    return own_client


@contextmanager
def replica_of_nobody(operator: Any) -> Iterator[None]:
    operator.replicaof("127.0.0.1", free_port())
    yield
    operator.replicaof("NO", "ONE")


@contextmanager
def replica_that_hides_stale_data(operator: Any) -> Iterator[None]:
    operator.config_set("replica-serve-stale-data", "no")
    with replica_of_nobody(operator):
        yield


NEEDS_REPLICAS = (replica_of_nobody, replica_that_hides_stale_data)


@contextmanager
def primary_without_replicas(operator: Any) -> Iterator[None]:
    operator.config_set("min-replicas-to-write", 1)
    yield
    operator.config_set("min-replicas-to-write", 0)


@contextmanager
def endless_script(operator: Any) -> Iterator[None]:
    operator.config_set("busy-reply-threshold", 1)

    def run() -> None:
        with suppress(redis.RedisError):  # it is killed, or outlives its client's patience
            operator.eval("while true do end", 0)

    running = threading.Thread(target=run)
    running.start()
    wait_until(lambda: "BUSY" in error_of(lambda: operator.get("any")))
    yield
    operator.script_kill()
    running.join(DEADLINE_S)


@pytest.mark.parametrize(
    ("code", "bring_into"),
    [
        # The blocking client takes the code off and makes a class of it.
        ("READONLY|ReadOnlyError", replica_of_nobody),
        ("MASTERDOWN|MasterDownError", replica_that_hides_stale_data),
        ("NOREPLICAS", primary_without_replicas),
        ("BUSY", endless_script),
    ],
)
@pytest.mark.fault("B12")
async def test_a_server_that_will_not_serve_is_unavailable_for_as_long_as_it_will_not(
    server_kind: ServerKind, stream: EventStream, archive_log: ArchiveLog, operator: Any, code: str, bring_into: Callable[[Any], Any]
) -> None:
    if bring_into in NEEDS_REPLICAS and not server_kind.features.replicas:
        # A cluster decides itself who is whose replica, and refuses REPLICAOF; the state does not exist there.
        pytest.skip(f"{server_kind.name} cannot be made a replica")
    before = await stream.append(an_event())
    archive_log.ends()

    with bring_into(operator):
        with pytest.raises(StreamUnavailable, match=code):
            await stream.append(an_event())
        with pytest.raises(StreamUnavailable, match=code):
            archive_log.note_totals({"rows:events": 1})

    after = await until_appended(stream, deadline_s=DEADLINE_S)
    assert not after.duplicate
    assert (after.incarnation == before.incarnation) == (after.sequence == 2)  # a server that was a replica begins anew
    assert max(end.last.sequence for end in archive_log.ends()) == after.sequence


@pytest.mark.fault("B12")
async def test_a_server_that_became_a_replica_is_left(server_kind: ServerKind, own_log: LogSettings, operator: Any, home: Path) -> None:
    """After a failover the address leads to another server; a connection that stays would never write again."""
    if not server_kind.features.replicas:
        # A cluster decides itself who is whose replica, and refuses REPLICAOF; the state does not exist there.
        pytest.skip(f"{server_kind.name} cannot be made a replica")
    pipeline = open_pipeline(own_log, home=home)
    await pipeline.call("SET", "a", "1")

    with replica_of_nobody(operator), pytest.raises(StreamUnavailable, match="READONLY"):
        await pipeline.run("note", keys=["ledger"], args=["rows:events", 1])

    assert await pipeline.call("SET", "a", "2") == b"OK"
    assert await pipeline.connect() == 2
    await pipeline.close()


@pytest.mark.fault("B12")
async def test_a_server_that_loads_its_data_is_unavailable_until_it_has(
    server_kind: ServerKind, own_server: EmbeddedServer, stream: EventStream, archive_log: ArchiveLog, operator: Any
) -> None:
    # A node that loads does not know the others yet, and says that first.
    code, error = ("LOADING", "BusyLoadingError") if server_kind.features.one_keyspace else ("CLUSTERDOWN", "ClusterDownError")
    before = await stream.append(an_event())
    archive_log.ends()
    calls = operator.pipeline(transaction=False)
    for _ in range(5000):
        calls.incr("{0}something to load")
    calls.execute()
    own_server.kill()
    own_server.options["key-load-delay"] = "400"  # microseconds for each command of the append-only file

    starting = asyncio.create_task(asyncio.to_thread(own_server.start))
    blocking = asyncio.to_thread(wait_until, lambda: error in error_of(archive_log.ends))
    await asyncio.gather(until_error(stream, code=code), blocking)
    await starting

    after = await until_appended(stream, deadline_s=DEADLINE_S)
    assert (after.sequence, after.incarnation != before.incarnation) == (1, True)


@pytest.mark.fault("B4")
async def test_a_server_that_hangs_is_given_up_in_time_and_found_again(
    own_server: EmbeddedServer, stream: EventStream, archive_log: ArchiveLog
) -> None:
    await stream.append(an_event())
    archive_log.ends()
    event = an_event()

    os.kill(own_server.pid, signal.SIGSTOP)
    try:
        began = time.monotonic()
        async with asyncio.timeout(DEADLINE_S):
            with pytest.raises(StreamUnavailable, match="no reply within 1 s"):
                await stream.append(event)
        with pytest.raises(StreamUnavailable):
            archive_log.ends()
        took_s = time.monotonic() - began
    finally:
        os.kill(own_server.pid, signal.SIGCONT)

    assert took_s < 10  # two timeouts of a second
    # It may have been read by then, or not: either way it is there once.
    await until_appended(stream, deadline_s=DEADLINE_S, event=event)
    assert [end.last.sequence for end in archive_log.ends() if end.last.sequence] == [2]


@asynccontextmanager
async def through_a_proxy(own_server: EmbeddedServer, own_log: LogSettings) -> AsyncIterator[tuple[Proxy, LogSettings]]:
    async with Proxy(own_server.port).running() as proxy:
        if isinstance(own_server, EmbeddedCluster):
            own_server.announce_first(proxy.port)
        yield proxy, own_log.model_copy(update={"url": own_log.url.replace(str(own_server.port), str(proxy.port))})


@asynccontextmanager
async def streaming(log: LogSettings, *, home: Path) -> AsyncIterator[EventStream]:
    stream = EventStream.open(log, home=home)
    try:
        yield stream
    finally:
        await stream.close()


async def replies_of(stream: EventStream, *, proxy: Proxy, events: int) -> int:
    """How many bytes are answered to so many concurrent appends on a fresh connection, to a server that knows the scripts."""
    await stream.append(an_event())
    await stream.close()
    before = proxy.replied_bytes
    await asyncio.gather(*[stream.append(an_event(), recheck=True) for _ in range(events)])
    await stream.close()
    return proxy.replied_bytes - before


@pytest.mark.parametrize("toxic", ["limit_data", "reset_peer"])
@pytest.mark.fault("B6")
async def test_an_append_whose_reply_is_cut_anywhere_is_there_once_when_it_is_sent_again(
    own_server: EmbeddedServer, own_log: LogSettings, own_client: Any, home: Path, toxic: str
) -> None:
    async with through_a_proxy(own_server, own_log) as (proxy, log), streaming(log, home=home) as stream:
        whole = await replies_of(stream, proxy=proxy, events=1)
        appended = 2

        for cut in range(0, whole, 7):
            event = an_event()
            proxy.harm(**{toxic: cut})
            with pytest.raises(StreamUnavailable):
                await stream.append(event)
            proxy.heal()
            receipt = await until_appended(stream, deadline_s=DEADLINE_S, event=event)
            appended += 1

            assert receipt.event_id == event.id
            await stream.close()
    assert appended > 10
    entries = own_client.xrange(Keys(log.prefix, 1).events(0, "default"))
    assert [int(fields[b"sequence"]) for _, fields in entries] == list(range(1, appended + 1))


@pytest.mark.fault("B7")
async def test_no_reply_of_a_cut_pipeline_is_taken_for_that_of_another_append(
    own_server: EmbeddedServer, own_log: LogSettings, own_client: Any, home: Path
) -> None:
    events = [an_event() for _ in range(40)]
    async with through_a_proxy(own_server, own_log) as (proxy, log), streaming(log, home=home) as stream:
        whole = await replies_of(stream, proxy=proxy, events=len(events))
        proxy.harm(limit_data=whole * 3 // 4)  # in the middle of one of the replies; each is that of some events

        # All on one connection, as events that have to keep their order are.
        first = await asyncio.gather(*[stream.append(event, recheck=True) for event in events], return_exceptions=True)
        proxy.heal()
        again = [await until_appended(stream, deadline_s=DEADLINE_S, event=event) for event in events]

    heard = [(event, outcome) for event, outcome in zip(events, first, strict=True) if not isinstance(outcome, BaseException)]
    entries = dict(own_client.xrange(Keys(log.prefix, 1).events(0, "default")))
    assert 0 < len(heard) < len(events)
    assert all(event.id == receipt.event_id for event, receipt in heard)
    assert all(entries[receipt.entry_id.encode()][b"id"] == event.id.encode() for event, receipt in heard)
    assert {type(outcome) for outcome in first if isinstance(outcome, BaseException)} == {StreamUnavailable}
    assert [receipt.event_id for receipt in again] == [event.id for event in events]
    assert own_client.xlen(Keys(log.prefix, 1).events(0, "default")) == 1 + 2 * len(events)


@pytest.mark.parametrize("toxic", [{"limit_data": 100}, {"reset_peer": 100}, {"latency_ms": 5000}])
async def test_an_archive_whose_reply_is_cut_or_late_learns_so_in_time_and_goes_on(
    own_server: EmbeddedServer, own_log: LogSettings, home: Path, stream: EventStream, toxic: dict[str, int]
) -> None:
    await stream.append(an_event())
    async with through_a_proxy(own_server, own_log) as (proxy, log):
        archive_log = await asyncio.to_thread(ArchiveLog.open, log, home=home)
        proxy.harm(**toxic)

        async with asyncio.timeout(DEADLINE_S):
            with pytest.raises(StreamUnavailable):
                await asyncio.to_thread(archive_log.ends)
            proxy.heal()
            ends = await asyncio.to_thread(archive_log.ends)
        archive_log.close()

    assert [end.last.sequence for end in ends if end.last.sequence] == [1]


async def until_appended(stream: EventStream, *, deadline_s: float, event: Any = None) -> Any:
    """Sends one event again and again, as a sender does, until it is accepted."""
    event = event or an_event()
    async with asyncio.timeout(deadline_s):
        while True:
            try:
                return await stream.append(event)
            except StreamUnavailable:
                await asyncio.sleep(AGAIN_S)


async def until_error(stream: EventStream, *, code: str) -> None:
    async with asyncio.timeout(DEADLINE_S):
        while True:
            try:
                await stream.append(an_event())
            except StreamUnavailable as error:
                if code in str(error):
                    return
            await asyncio.sleep(AGAIN_S)


def wait_until(is_so: Callable[[], bool]) -> None:
    deadline = time.monotonic() + DEADLINE_S
    while not is_so():
        assert time.monotonic() < deadline
        time.sleep(AGAIN_S)


def error_of(act: Callable[[], object]) -> str:
    try:
        act()
    except (redis.RedisError, StreamUnavailable) as error:
        return f"{type(error).__name__} {error}"
    return ""
