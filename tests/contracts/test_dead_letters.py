"""A dead letter keeps what it was and why; it is requeued once, into its own group."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from infra.settings import LogSettings
from infra.streams.dead_letters import OWN_FIELDS, DeadLetters
from infra.streams.keys import Keys
from infra.streams.pipelining import Pipeline
from infra.streams.stream import EventStream
from tests.events import an_event
from tests.infra.streams.deliveries import GIVE_UP, TOO_MANY, add_foreign, give_up, give_up_all, read_one, reader_of, settle_as


@pytest.fixture
def dead_letters(log: LogSettings, home: Path) -> Iterator[DeadLetters]:
    opened = DeadLetters.open(log, home=home)
    yield opened
    opened.close()


@pytest.mark.fault("D13")
async def test_a_dead_letter_says_why_and_can_be_requeued_once(
    stream: EventStream, pipeline: Pipeline, keys: Keys, dead_letters: DeadLetters, client: Any
) -> None:
    reader = await reader_of(pipeline, keys)
    event = an_event()
    await stream.append(event)
    await settle_as(reader, pipeline, keys, (await read_one(reader), GIVE_UP))

    (letter,) = dead_letters.find(event.id)
    results = [dead_letters.requeue(letter), dead_letters.requeue(letter)]

    assert (letter.reason, letter.error, letter.traceback, letter.attempts) == ("because", "ValueError: x", "tb", 4)
    assert letter.event == event
    assert results == ["requeued", "already"]
    again = await read_one(reader)
    assert b"retry_count" not in again.fields
    assert again.fields[b"payload"] == event.payload
    assert [found.state for found in dead_letters.letters()] == ["requeued"]
    assert list(dead_letters.letters(state="open")) == []
    shard = keys.shard_of(event)
    assert client.hget(keys.ledger(shard), "dead:g") == b"1"


async def test_requeueing_appends_a_state_record_with_the_next_number(
    stream: EventStream, pipeline: Pipeline, keys: Keys, dead_letters: DeadLetters, client: Any
) -> None:
    event = an_event()
    await give_up(stream, pipeline, keys, events=[event])
    (letter,) = dead_letters.letters()

    dead_letters.requeue(letter)

    (_, first), (_, second) = client.xrange(keys.dead(keys.shard_of(event)))
    assert (first[b"record"], first[b"sequence"]) == (b"letter", b"1")
    assert (second[b"record"], second[b"state"], second[b"group"], second[b"sequence"]) == (b"state", b"requeued", b"g", b"2")
    assert letter.id.endswith(second[b"of"].decode())
    assert second[b"incarnation"] == first[b"incarnation"] != b""


async def test_a_letters_own_fields_win_over_those_of_a_malformed_entry(
    pipeline: Pipeline, keys: Keys, dead_letters: DeadLetters, client: Any
) -> None:
    reader = await reader_of(pipeline, keys)
    foreign = {name: "foreign" for name in OWN_FIELDS if name not in ("incarnation", "sequence")} | {"kept:group": "too", "x": "y"}
    add_foreign(client, keys.events(0, "default"), foreign)
    await give_up_all(reader, pipeline, keys)

    (letter,) = dead_letters.letters()
    requeued = dead_letters.requeue(letter)

    assert (letter.group, letter.reason, letter.attempts, letter.event) == ("g", "because", 4, None)
    assert letter.entry == foreign
    assert requeued == "requeued"
    again = await read_one(reader)
    assert {name.decode(): value.decode() for name, value in again.fields.items()} == foreign


async def test_a_letter_of_an_entry_with_too_many_fields_can_be_requeued(
    pipeline: Pipeline, keys: Keys, dead_letters: DeadLetters, client: Any
) -> None:
    reader = await reader_of(pipeline, keys)
    add_foreign(client, keys.events(0, "default"), {f"field{n}": "x" for n in range(TOO_MANY)})
    await give_up_all(reader, pipeline, keys)

    (letter,) = dead_letters.letters()

    assert dead_letters.requeue(letter) == "requeued"
    again = await read_one(reader)
    assert again.fields[b"field0"] == b"x"
    assert f"field{TOO_MANY - 1}".encode() in again.fields[b"raw_fields"]
