"""Dead letters are kept for their retention, and longer until they are archived."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from infra.settings import LogSettings
from infra.streams import janitor
from infra.streams.dead_letters import DeadLetters
from infra.streams.keys import Keys
from infra.streams.overview import overview
from infra.streams.pipelining import Pipeline
from infra.streams.stream import EventStream
from tests.events import an_event
from tests.infra.streams.deliveries import GIVE_UP, reader_of, settle_as

WEEK_MS = 168 * 3_600_000


@pytest.fixture
def log(log: LogSettings) -> LogSettings:
    return log.model_copy(update={"shards": 1})


async def give_up(stream: EventStream, pipeline: Pipeline, keys: Keys, *, letters: int) -> None:
    reader = await reader_of(pipeline, keys)
    for _ in range(letters):
        await stream.append(an_event())
    taken = await reader.read(budget=1000, block_ms=1000)
    await settle_as(reader, pipeline, keys, *((lease, GIVE_UP) for lease in taken))


def ids_of(client: Any, keys: Keys) -> list[bytes]:
    return [entry_id for entry_id, _ in client.xrange(keys.dead(0))]


def put_old(client: Any, keys: Keys, *, letters: int) -> None:
    """Letters as the log held them a month ago: nothing else tells an old entry from a new one than its id."""
    for number in range(1, letters + 1):
        client.xadd(keys.dead(0), {"record": "letter", "group": "g", "number": number}, id=f"1000-{number}")
    client.hset(keys.ledger(0), "dead:g", letters)


async def test_nothing_is_trimmed_while_no_archive_reads_the_dead_letters(
    stream: EventStream, pipeline: Pipeline, keys: Keys, client: Any
) -> None:
    put_old(client, keys, letters=3)
    client.xgroup_create(keys.dead(0), "other", "$")

    assert await janitor.trim_dead(pipeline, keys=keys, retention_ms=0) == 0
    assert len(ids_of(client, keys)) == 3


async def test_what_is_not_archived_is_kept_however_old_it_is(pipeline: Pipeline, keys: Keys, client: Any) -> None:
    put_old(client, keys, letters=10)
    client.xgroup_create(keys.dead(0), "archive", "1000-4")

    assert await janitor.trim_dead(pipeline, keys=keys, retention_ms=WEEK_MS) == 4
    assert ids_of(client, keys) == [f"1000-{n}".encode() for n in range(5, 11)]


async def test_what_the_archive_has_in_hand_is_not_archived(pipeline: Pipeline, keys: Keys, client: Any) -> None:
    put_old(client, keys, letters=5)
    client.xgroup_create(keys.dead(0), "archive", "0")
    client.xreadgroup("archive", "a", {keys.dead(0): ">"})
    client.xack(keys.dead(0), "archive", "1000-1", "1000-2", "1000-4")

    assert await janitor.trim_dead(pipeline, keys=keys, retention_ms=WEEK_MS) == 2


async def test_what_is_archived_is_kept_until_its_retention_is_over(
    stream: EventStream, pipeline: Pipeline, keys: Keys, client: Any
) -> None:
    await give_up(stream, pipeline, keys, letters=3)
    client.xgroup_create(keys.dead(0), "archive", "$")

    assert await janitor.trim_dead(pipeline, keys=keys, retention_ms=WEEK_MS) == 0
    assert await janitor.trim_dead(pipeline, keys=keys, retention_ms=-WEEK_MS) == 3


async def test_what_is_trimmed_is_no_longer_open_and_leaves_no_state_behind(
    stream: EventStream, pipeline: Pipeline, keys: Keys, client: Any, log: LogSettings, home: Path
) -> None:
    await give_up(stream, pipeline, keys, letters=4)
    dead_letters = DeadLetters.open(log, home=home)
    one, other, *_ = dead_letters.letters()
    dead_letters.requeue(one)
    dead_letters.discard(other, by="a", because="x")
    dead_letters.close()
    client.xgroup_create(keys.dead(0), "archive", "$")
    before = (await overview(pipeline, keys=keys)).open_dead_letters

    removed = await janitor.trim_dead(pipeline, keys=keys, retention_ms=-WEEK_MS)

    assert (before, removed) == (2, 6)  # four letters, two records
    assert (await overview(pipeline, keys=keys)).open_dead_letters == 0
    assert client.exists(keys.dead_state(0)) == 0


async def test_many_letters_are_trimmed_a_few_at_a_time(pipeline: Pipeline, keys: Keys, client: Any) -> None:
    put_old(client, keys, letters=3 * janitor.LETTERS_AT_ONCE + 1)
    client.xgroup_create(keys.dead(0), "archive", "$")

    assert await janitor.trim_dead(pipeline, keys=keys, retention_ms=WEEK_MS) == 3 * janitor.LETTERS_AT_ONCE + 1
    assert client.hget(keys.ledger(0), "closed:g") == str(3 * janitor.LETTERS_AT_ONCE + 1).encode()
