"""A log that sentinels watch: whoever is the primary is found, proven and left again, by both clients."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from infra.settings import LogSettings
from infra.streams.connection import open_blocking, open_pipeline, translated
from infra.streams.keys import Keys
from infra.streams.probe import look, why_alone, why_unfit
from infra.streams.ranges import ArchiveLog
from infra.streams.sentinel import Word, find_primary, newest, read_word
from infra.streams.stream import EventStream
from schemas.errors import StreamUnavailable
from tests.contracts.clusters import wait_until
from tests.contracts.sentinels import SERVICE, SentinelSet
from tests.events import an_event
from tests.ports import free_port
from tests.sending import until_appended

PASSWORD = "a-test-password"


@pytest.fixture(scope="module")
def watched(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SentinelSet]:
    """One for all tests of this file; each finds it with some primary, two replicas and three sentinels."""
    server = SentinelSet(tmp_path_factory.mktemp("watched"), free_port(), PASSWORD)
    try:
        server.start()
        yield server
    finally:
        server.kill()


@pytest.fixture
def log(watched: SentinelSet, log: LogSettings) -> LogSettings:
    return log.model_copy(update={"url": watched.url, "timeout_ms": 4000, "shards": 1, "durability": "replicated"})


@pytest.fixture
async def stream(log: LogSettings, home: Path) -> AsyncIterator[EventStream]:
    opened = EventStream.open(log, home=home)
    yield opened
    await opened.close()


@pytest.mark.parametrize("words", [[Word(1, "a", 1), Word(3, "c", 3), Word(2, "b", 2)], [Word(3, "c", 3)]])
def test_the_word_with_the_newest_configuration_counts(words: list[Word]) -> None:
    assert newest(words).node == "c:3"


def test_a_sentinel_that_does_not_know_the_service_is_unavailable() -> None:
    assert read_word([b"::1", b"6379"], [b"name", b"x", b"config-epoch", b"7"], service="x") == Word(7, "::1", 6379)
    with pytest.raises(StreamUnavailable, match="does not know x"):
        read_word(None, [], service="x")


async def test_both_clients_find_the_primary_and_it_is_fit(stream: EventStream, log: LogSettings, keys: Keys, home: Path) -> None:
    receipt = await stream.append(an_event())

    with open_blocking(log, home=home) as client, translated():
        assert client.xlen(keys.events(0, "default")) == receipt.sequence == 1
        facts = look(client, log=log)
    assert (facts.role, facts.replicas, why_unfit(facts, log=log), why_alone(facts, log=log)) == ("master", 2, "", "")


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ((f"/{SERVICE}", "/another"), "no sentinel of the log knows the primary another: .*No such master"),
        (("sentinel_password=", "sentinel_password=not-"), "no sentinel of the log knows the primary .*WRONGPASS"),
        ((f":{PASSWORD}@", ":wrong@"), "WRONGPASS|invalid username-password"),
    ],
)
async def test_what_the_address_says_wrongly_is_unavailable_to_both_clients(
    log: LogSettings, home: Path, change: tuple[str, str], reason: str
) -> None:
    wrong = log.model_copy(update={"url": log.url.replace(*change)})

    with pytest.raises(StreamUnavailable, match=reason):
        await open_pipeline(wrong, home=home).call("PING")
    with pytest.raises(StreamUnavailable, match=reason), translated(), open_blocking(wrong, home=home) as client:
        client.ping()


async def test_one_sentinel_that_answers_is_enough(log: LogSettings, watched: SentinelSet) -> None:
    (first, *_) = watched.sentinels
    url = log.url.replace(f"@127.0.0.1:{first.port}", f"@127.0.0.1:{free_port()},127.0.0.1:{first.port}").replace(
        ",".join(f"127.0.0.1:{other.port}" for other in watched.sentinels[1:]), f"127.0.0.1:{free_port()}"
    )

    assert (await find_primary(url, within_ms=5000)).port == watched.primary.port


async def test_a_replica_that_the_sentinels_name_is_not_used(log: LogSettings, watched: SentinelSet, home: Path) -> None:
    """For a moment after a failover sentinels may name a server that follows another one already."""
    replica = next(server for server in watched.servers if server is not watched.primary)
    for sentinel in watched.sentinels:
        sentinel.ask("MONITOR", "misled", "127.0.0.1", replica.port, 9)
    misled = log.model_copy(update={"url": log.url.replace(f"/{SERVICE}", "/misled")})

    with pytest.raises(StreamUnavailable, match="should be the log's primary is a slave"):
        await open_pipeline(misled, home=home).call("PING")
    with pytest.raises(StreamUnavailable, match="should be the log's primary is a slave"), translated():
        open_blocking(misled, home=home).ping()


async def test_a_failover_that_an_operator_asks_for_is_followed_by_both_clients(
    stream: EventStream, log: LogSettings, keys: Keys, watched: SentinelSet, home: Path
) -> None:
    archive_log = ArchiveLog.open(log, home=home)
    before = await until_appended(stream, an_event())
    archive_log.ends()
    old = watched.primary

    await asyncio.to_thread(watched.sentinels[1].ask, "FAILOVER", SERVICE)
    new = await asyncio.to_thread(watched.wait_for_another_primary, old)
    wait_until(old.is_replica)
    after = await until_appended(stream, an_event())

    assert (after.incarnation != before.incarnation, after.sequence) == (True, 1)
    with translated(), open_blocking(log, home=home) as client:
        assert client.xlen(keys.events(0, "default")) == 2
    # Sentinels cut the connections to a server that they demote, and the client sees that before it sends.
    assert {end.incarnation for end in archive_log.ends()} == {after.incarnation}
    assert new.replication()["role"] == "master"
    archive_log.close()
