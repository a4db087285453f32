from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from infra.running.embedded import EmbeddedServer
from infra.settings import LogSettings
from infra.streams.connection import open_blocking
from infra.streams.probe import ServerFacts, refuse_unfit, why_alone, why_outdated, why_unfit
from infra.streams.stream import EventStream
from schemas.errors import ConfigError
from tests.events import an_event
from tests.ports import free_port

FIT = ServerFacts("valkey", "9.1.2", (7, 2), append_only=True, append_fsync="always", eviction="noeviction", role="master")
LOG = LogSettings(url="redis://127.0.0.1")


def test_a_fit_server_is_not_refused(log: LogSettings, home: Path) -> None:
    client = open_blocking(log, home=home)

    facts = refuse_unfit(client, log=log)

    client.close()
    assert (facts.name, facts.append_only, facts.append_fsync, facts.eviction) == ("valkey", True, "always", "noeviction")
    assert facts.largest_value_bytes is not None


@pytest.mark.parametrize(
    ("facts", "sentence"),
    [
        (replace(FIT, compatible_with=(6, 2)), "streams need Redis 7.0 or later"),
        (replace(FIT, eviction="allkeys-lru"), "a full memory would delete accepted events"),
        (replace(FIT, largest_value_bytes=1024 * 1024), "it takes no event of a larger body"),
        (replace(FIT, append_only=False), "a restart would lose every event"),
        (replace(FIT, append_fsync="everysec"), "a power cut would lose accepted events"),
    ],
)
def test_an_unfit_server_is_refused_with_the_consequence(facts: ServerFacts, sentence: str) -> None:
    assert sentence in why_unfit(facts, log=LOG)


@pytest.mark.parametrize(
    ("name", "version", "enough"),
    [
        ("redis", "7.0.15", "7.2.11"),  # a line that was never mended
        ("redis", "7.2.10", "7.2.11"),
        ("redis", "7.4.5", "7.4.6"),
        ("redis", "8.0.3", "8.0.4"),
        ("redis", "8.2.1", "8.2.2"),
        ("valkey", "7.2.10", "7.2.11"),
        ("valkey", "8.0.5", "8.0.6"),
        ("valkey", "8.1.3", "8.1.4"),
    ],
)
def test_a_version_with_a_serious_defect_is_warned_about_with_the_version_to_have(name: str, version: str, enough: str) -> None:
    sentence = why_outdated(replace(FIT, name=name, version=version))

    assert f"the server is {name} {version}," in sentence
    assert f"CVE-2025-49844); update it to {enough} or later" in sentence
    assert why_unfit(replace(FIT, name=name, version=version), log=LOG) == ""


@pytest.mark.parametrize(
    ("name", "version"),
    [
        ("redis", "7.2.11"), ("redis", "7.4.6"), ("redis", "8.0.4"), ("redis", "8.2.2"), ("redis", "8.2.10"), ("redis", "8.4.0"),
        ("valkey", "7.2.11"), ("valkey", "8.0.6"), ("valkey", "8.1.4"), ("valkey", "9.0.0"), ("valkey", "9.1.2"),
        ("dragonfly", "1.0.0"),
    ],
)  # fmt: skip
def test_a_mended_or_unknown_server_is_not_warned_about(name: str, version: str) -> None:
    assert why_outdated(replace(FIT, name=name, version=version)) == ""


def test_relaxed_durability_accepts_a_server_that_may_lose_a_second() -> None:
    relaxed = LOG.model_copy(update={"durability": "relaxed"})

    assert why_unfit(replace(FIT, append_only=False, append_fsync="no"), log=relaxed) == ""
    assert why_unfit(replace(FIT, eviction="allkeys-lru"), log=relaxed) != ""


@pytest.mark.parametrize(("replicas", "demanded", "is_alone"), [(0, 1, True), (1, 1, False), (1, 2, True), (3, 2, False)])
def test_a_replicated_log_needs_as_many_replicas_as_are_demanded(replicas: int, demanded: int, is_alone: bool) -> None:
    replicated = LOG.model_copy(update={"durability": "replicated", "replicas": demanded})

    assert bool(why_alone(replace(FIT, replicas=replicas), log=replicated)) is is_alone
    assert why_alone(replace(FIT, replicas=0), log=LOG) == ""


def test_a_replicated_log_is_synced_too() -> None:
    assert "appendfsync is everysec" in why_unfit(
        replace(FIT, append_fsync="everysec"), log=LOG.model_copy(update={"durability": "replicated"})
    )


@pytest.fixture
def unfit_server(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[EmbeddedServer]:
    server = EmbeddedServer(tmp_path / "unfit", free_port(), "a-test-password", options=request.param)
    server.start()
    yield server
    server.kill()


@pytest.mark.parametrize(
    ("unfit_server", "sentence"),
    [
        ({"maxmemory-policy": "allkeys-lru"}, "maxmemory-policy is allkeys-lru"),
        ({"appendfsync": "everysec"}, "appendfsync is everysec"),
        ({"appendonly": "no"}, "appendonly no"),
    ],
    indirect=["unfit_server"],
)
def test_a_real_unfit_server_is_refused(unfit_server: EmbeddedServer, home: Path, sentence: str) -> None:
    log = LogSettings(url=unfit_server.url)
    client = open_blocking(log, home=home)

    with pytest.raises(ConfigError, match=sentence):
        refuse_unfit(client, log=log)
    client.close()


async def test_another_number_of_shards_is_refused_at_start(stream: EventStream, log: LogSettings, home: Path) -> None:
    for _ in range(20):  # every shard is begun
        await stream.append(an_event())
    other = log.model_copy(update={"shards": 2})
    client = open_blocking(other, home=home)

    with pytest.raises(ConfigError, match=r"log\.shards=2, but this log was begun with 4 shards"):
        refuse_unfit(client, log=other)
    client.close()
