from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from infra.settings import LogSettings
from infra.streams.dead_letters import DeadLetters
from infra.streams.decided import CHUNK
from infra.streams.keys import Keys
from infra.streams.pipelining import Pipeline
from infra.streams.stream import EventStream
from tests.events import an_event
from tests.infra.streams.deliveries import add_foreign, give_up, give_up_all, reader_of


@pytest.fixture
def dead_letters(log: LogSettings, home: Path) -> Iterator[DeadLetters]:
    opened = DeadLetters.open(log, home=home)
    yield opened
    opened.close()


async def test_letters_come_newest_first_over_all_shards(
    stream: EventStream, pipeline: Pipeline, keys: Keys, dead_letters: DeadLetters
) -> None:
    events = [an_event() for _ in range(12)]
    await give_up(stream, pipeline, keys, events=events)

    newest_first = [event.id for event in reversed(events)]
    assert len({keys.shard_of(event) for event in events}) > 1
    assert [letter.event_id for letter in dead_letters.letters()] == newest_first
    assert [letter.event_id for letter in dead_letters.letters(limit=5)] == newest_first[:5]


async def test_a_limited_list_reads_no_more_than_it_shows(pipeline: Pipeline, keys: Keys, dead_letters: DeadLetters, client: Any) -> None:
    reader = await reader_of(pipeline, keys)
    for n in range(3 * CHUNK):
        add_foreign(client, keys.events(0, "default"), {"number": str(n)})
    await give_up_all(reader, pipeline, keys)
    client.config_resetstat()

    assert len(list(dead_letters.letters(limit=10))) == 10

    assert client.info("commandstats")["cmdstat_xrevrange"]["calls"] == keys.shards
    assert len(list(dead_letters.letters())) == 3 * CHUNK


async def test_filters_let_only_their_own_pass(stream: EventStream, pipeline: Pipeline, keys: Keys, dead_letters: DeadLetters) -> None:
    await give_up(stream, pipeline, keys, events=[an_event() for _ in range(3)])
    newest = next(dead_letters.letters())
    dead_letters.requeue(newest)

    assert list(dead_letters.letters(group="other")) == []
    assert [letter.id for letter in dead_letters.letters(group="g", state="requeued")] == [newest.id]
    assert len(list(dead_letters.letters(state="open", limit=2))) == 2
