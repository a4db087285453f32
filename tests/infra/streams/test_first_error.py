"""The first failure travels with the event from retry to retry, and stands in its dead letter beside the last one."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from infra.settings import LogSettings
from infra.streams.dead_letters import DeadLetters
from infra.streams.delayed import promote_due
from infra.streams.keys import Keys
from infra.streams.pipelining import Pipeline
from infra.streams.settle import RetryLater
from infra.streams.stream import EventStream
from schemas.errors import StreamUnavailable
from tests.events import an_event
from tests.infra.streams.deliveries import GIVE_UP, add_foreign, make_due, pending, read_one, reader_of, settle_as

FIRST = RetryLater(0, 1, error="OSError: first", traceback="first\x00 traceback é")
SECOND = RetryLater(60_000, 2, error="OSError: second", traceback="second traceback")


@pytest.fixture
def dead_letters(log: LogSettings, home: Path) -> Iterator[DeadLetters]:
    opened = DeadLetters.open(log, home=home)
    yield opened
    opened.close()


async def test_a_letter_has_the_first_error_and_the_last(
    stream: EventStream, pipeline: Pipeline, keys: Keys, client: Any, dead_letters: DeadLetters
) -> None:
    reader = await reader_of(pipeline, keys)
    event = an_event()
    await stream.append(event)
    await settle_as(reader, pipeline, keys, (await read_one(reader), FIRST))
    await settle_as(reader, pipeline, keys, (await read_one(reader), SECOND))
    make_due(client, keys.delayed(keys.shard_of(event)))
    await promote_due(pipeline, keys=keys)
    last = await read_one(reader)

    await settle_as(reader, pipeline, keys, (last, GIVE_UP))

    (letter,) = dead_letters.letters()
    assert (letter.first_error, letter.first_traceback) == (FIRST.error, FIRST.traceback)
    assert (letter.error, letter.traceback) == (GIVE_UP.error, GIVE_UP.traceback)
    assert (letter.from_stream, letter.from_entry) == (last.stream, last.entry_id)
    ((_, stored),) = client.xrange(keys.dead(last.shard))
    assert not [name for name in stored if name.startswith(b"kept:")]


async def test_the_only_error_is_the_first_and_the_last(
    stream: EventStream, pipeline: Pipeline, keys: Keys, dead_letters: DeadLetters
) -> None:
    reader = await reader_of(pipeline, keys)
    await stream.append(an_event())

    await settle_as(reader, pipeline, keys, (await read_one(reader), replace(GIVE_UP, attempts=1)))

    (letter,) = dead_letters.letters()
    assert letter.first_error == letter.error == GIVE_UP.error
    assert letter.first_traceback == letter.traceback == GIVE_UP.traceback


async def test_nothing_is_said_of_a_first_attempt_that_left_no_error(
    stream: EventStream, pipeline: Pipeline, keys: Keys, dead_letters: DeadLetters
) -> None:
    reader = await reader_of(pipeline, keys)
    await stream.append(an_event())

    await settle_as(reader, pipeline, keys, (await read_one(reader), replace(GIVE_UP, attempts=4)))

    assert next(dead_letters.letters()).first_error == ""


async def test_a_requeued_event_begins_without_the_errors_of_its_former_life(
    stream: EventStream, pipeline: Pipeline, keys: Keys, dead_letters: DeadLetters
) -> None:
    reader = await reader_of(pipeline, keys)
    await stream.append(an_event())
    await settle_as(reader, pipeline, keys, (await read_one(reader), FIRST))
    await settle_as(reader, pipeline, keys, (await read_one(reader), GIVE_UP))
    dead_letters.requeue(next(dead_letters.letters()))
    again = await read_one(reader)

    await settle_as(reader, pipeline, keys, (again, replace(FIRST, error="ValueError: new life")))
    await settle_as(reader, pipeline, keys, (await read_one(reader), GIVE_UP))

    assert b"first_error" not in again.fields
    assert next(dead_letters.letters()).first_error == "ValueError: new life"


async def test_a_foreign_field_of_that_name_is_kept_and_not_mistaken_for_ours(
    pipeline: Pipeline, keys: Keys, client: Any, dead_letters: DeadLetters
) -> None:
    reader = await reader_of(pipeline, keys)
    add_foreign(client, keys.events(0, "default"), {"first_error": "foreign"})
    await settle_as(reader, pipeline, keys, (await read_one(reader), FIRST))

    await settle_as(reader, pipeline, keys, (await read_one(reader), GIVE_UP))

    (letter,) = dead_letters.letters()
    assert (letter.first_error, letter.entry) == (FIRST.error, {"first_error": "foreign"})


@pytest.mark.parametrize("detail", [b'0:1:["first_error"', b"0:1:[1]", b"0:1:7", b"0:1"])
async def test_a_retry_whose_error_makes_no_sense_removes_nothing(
    stream: EventStream, pipeline: Pipeline, keys: Keys, client: Any, detail: bytes
) -> None:
    reader = await reader_of(pipeline, keys)
    await stream.append(an_event())
    lease = await read_one(reader)
    shard = lease.shard
    at = [lease.stream, keys.retry(shard, "g"), keys.delayed(shard), keys.delayed_bodies(shard), keys.dead(shard), keys.ledger(shard)]

    with pytest.raises(StreamUnavailable, match="makes no sense; nothing was settled"):
        await pipeline.run("settle", keys=at, args=["g", "c1", lease.entry_id, 1, "r", detail])

    assert await pending(pipeline, lease) == 1
    assert client.xlen(keys.retry(shard, "g")) == 0
