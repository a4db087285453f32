"""`log.durability: replicated`: an append is accepted when a replica has it, and a whole write asks the replicas once."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from infra.settings import LogSettings
from infra.streams.connection import open_blocking, open_pipeline
from infra.streams.keys import Keys
from infra.streams.probe import look, why_alone
from infra.streams.stream import EventStream
from schemas.errors import StreamUnavailable
from tests.contracts.clusters import wait_until
from tests.contracts.replicas import ReplicatedServer
from tests.events import an_event
from tests.ports import free_port
from tests.sending import until_appended

PASSWORD = "a-test-password"


@pytest.fixture
def servers(tmp_path: Path) -> Iterator[list[ReplicatedServer]]:
    """A primary, and its replica."""
    started = [ReplicatedServer(tmp_path / name, free_port(), PASSWORD) for name in ("primary", "replica")]
    try:
        for server in started:
            server.start()
        started[1].copy(started[0].port)
        yield started
    finally:
        for server in started:
            server.kill()


@pytest.fixture
def primary(servers: list[ReplicatedServer]) -> ReplicatedServer:
    return servers[0]


@pytest.fixture
def replica(servers: list[ReplicatedServer]) -> ReplicatedServer:
    return servers[1]


@pytest.fixture
def log(primary: ReplicatedServer) -> LogSettings:
    return LogSettings(url=primary.url, durability="replicated", timeout_ms=15_000, shards=1)


@pytest.fixture
async def stream(log: LogSettings, home: Path) -> AsyncIterator[EventStream]:
    opened = EventStream.open(log, home=home)
    yield opened
    await opened.close()


@pytest.fixture
async def impatient(log: LogSettings, home: Path) -> AsyncIterator[EventStream]:
    opened = EventStream.open(log.model_copy(update={"timeout_ms": 1500}), home=home)
    yield opened
    await opened.close()


def waits_asked(server: ReplicatedServer) -> int:
    found = server.ask("INFO", "commandstats").get("cmdstat_wait", {"calls": 0})
    return int(found["calls"])


def length(server: ReplicatedServer, keys: Keys) -> int:
    return int(server.ask("XLEN", keys.events(0, "default")))


async def test_an_accepted_event_is_on_the_replica(stream: EventStream, replica: ReplicatedServer, keys: Keys) -> None:
    for number in range(1, 21):
        await stream.append(an_event())

        assert length(replica, keys) == number


async def test_concurrent_appends_share_the_word_of_the_replicas(
    stream: EventStream, primary: ReplicatedServer, replica: ReplicatedServer, keys: Keys
) -> None:
    await stream.append(an_event())
    asked_before = waits_asked(primary)

    receipts = await asyncio.gather(*[stream.append(an_event()) for _ in range(500)])

    assert [receipt.sequence for receipt in receipts] == list(range(2, 502))
    assert length(replica, keys) == 501
    assert waits_asked(primary) == asked_before + 1


async def test_what_comes_while_replicas_are_asked_is_the_next_write(
    stream: EventStream, primary: ReplicatedServer, replica: ReplicatedServer
) -> None:
    await stream.append(an_event())
    asked_before = waits_asked(primary)

    with replica.hanging():
        first = asyncio.ensure_future(stream.append(an_event()))
        await asyncio.sleep(0)
        following = []
        for _ in range(20):  # each in a turn of its own
            following.append(asyncio.ensure_future(stream.append(an_event())))
            await asyncio.sleep(0.001)
    await asyncio.gather(first, *following)

    assert waits_asked(primary) == asked_before + 2


async def test_an_event_that_no_replica_confirms_is_not_accepted_and_its_repeat_is_confirmed_for_it(
    impatient: EventStream, primary: ReplicatedServer, replica: ReplicatedServer, keys: Keys
) -> None:
    stream, event = impatient, an_event()
    await until_appended(stream, an_event())

    with replica.hanging():
        failures = await asyncio.gather(*[stream.append(event) for event in (event, an_event(), an_event())], return_exceptions=True)
        assert [str(failure) for failure in failures] == [str(failures[0])] * 3
        assert "replicas did not confirm within 500 ms what was appended (0 of 1)" in str(failures[0])
        # It is on the primary. Its repeat finds it there, and must not be believed for that.
        assert length(primary, keys) == 4
        with pytest.raises(StreamUnavailable, match="replicas did not confirm"):
            await stream.append(event)
    again = await until_appended(stream, event)

    assert (again.duplicate, again.event_id) == (True, event.id)
    assert length(replica, keys) == 4


async def test_more_replicas_may_be_demanded(log: LogSettings, home: Path) -> None:
    stream = EventStream.open(log.model_copy(update={"replicas": 2, "timeout_ms": 1500}), home=home)

    with pytest.raises(StreamUnavailable, match="1 of 2"):
        await stream.append(an_event())

    await stream.close()


async def test_only_appends_wait_for_replicas(log: LogSettings, home: Path, primary: ReplicatedServer, replica: ReplicatedServer) -> None:
    pipeline = open_pipeline(log, home=home)

    with replica.hanging():
        assert await pipeline.call("SET", "a", "1") == b"OK"
        assert await pipeline.run("note", keys=["b"], args=["c", 1]) is not None

    assert waits_asked(primary) == 0
    await pipeline.close()


async def test_a_caller_that_gives_up_while_replicas_are_asked_harms_nobody(stream: EventStream, replica: ReplicatedServer) -> None:
    await stream.append(an_event())

    with replica.hanging():
        appends = [asyncio.ensure_future(stream.append(an_event())) for _ in range(3)]
        await asyncio.sleep(0.05)
        appends[1].cancel()
    first, _, third = await asyncio.gather(*appends, return_exceptions=True)

    assert not isinstance(first, BaseException)
    assert not isinstance(third, BaseException)
    assert (first.sequence, third.sequence) == (2, 4)


def test_a_server_without_enough_replicas_is_told_in_one_sentence(log: LogSettings, home: Path, replica: ReplicatedServer) -> None:
    with open_blocking(log, home=home) as client:
        assert why_alone(look(client, log=log), log=log) == ""

        replica.kill()
        wait_until(lambda: look(client, log=log).replicas == 0)

        facts = look(client, log=log)
        assert why_alone(facts, log=log).startswith("log.durability is replicated, but the server has 0 of 1 connected replicas")
        assert why_alone(facts, log=log.model_copy(update={"durability": "fsync"})) == ""
