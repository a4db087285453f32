"""What operators decide about dead letters, and which ones they mean."""

from __future__ import annotations

import tracemalloc
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from infra.clock import Clock
from infra.settings import LogSettings
from infra.streams.dead_letters import DeadLetters
from infra.streams.keys import Keys
from infra.streams.letter_filter import LetterFilter
from infra.streams.overview import overview
from infra.streams.pipelining import Pipeline
from infra.streams.reading import GroupReader
from infra.streams.stream import EventStream
from tests.events import an_event
from tests.infra.streams.deliveries import GIVE_UP, add_foreign, reader_of, settle_as


@pytest.fixture
def dead_letters(log: LogSettings, home: Path) -> Iterator[DeadLetters]:
    opened = DeadLetters.open(log, home=home)
    yield opened
    opened.close()


async def give_up_all(reader: GroupReader, pipeline: Pipeline, keys: Keys, *, reason: str = "because") -> None:
    while taken := await reader.read(budget=200, block_ms=50):
        await settle_as(reader, pipeline, keys, *((lease, replace(GIVE_UP, reason=reason)) for lease in taken))


async def test_discarding_leaves_the_letter_and_a_record_with_the_next_number(
    stream: EventStream, pipeline: Pipeline, keys: Keys, dead_letters: DeadLetters, client: Any
) -> None:
    event = an_event()
    await stream.append(event)
    await give_up_all(await reader_of(pipeline, keys), pipeline, keys)
    (letter,) = dead_letters.letters()

    answer = dead_letters.discard(letter, by="ann@host", because="a test account")

    (_, first), (_, record) = client.xrange(keys.dead(keys.shard_of(event)))
    assert answer == "discarded"
    assert first[b"record"] == b"letter"
    assert (record[b"record"], record[b"state"], record[b"by"], record[b"because"]) == (
        b"state",
        b"discarded",
        b"ann@host",
        b"a test account",
    )
    assert (record[b"of"].decode(), record[b"sequence"]) == (letter.id.partition("-")[2], b"2")
    (shown,) = dead_letters.find(letter.id)
    assert (shown.state, shown.decided_by, shown.because) == ("discarded", "ann@host", "a test account")
    assert client.xlen(keys.retry(keys.shard_of(event), "g")) == 0


async def test_only_the_first_decision_counts(
    stream: EventStream, pipeline: Pipeline, keys: Keys, dead_letters: DeadLetters, client: Any
) -> None:
    for _ in range(2):
        await stream.append(an_event(key="one shard"))
    await give_up_all(await reader_of(pipeline, keys), pipeline, keys)
    one, other = dead_letters.letters()
    before = (await overview(pipeline, keys=keys)).open_dead_letters

    of_one = [dead_letters.requeue(one, by="a"), dead_letters.discard(one, by="b", because="x"), dead_letters.requeue(one, by="c")]
    of_other = [
        dead_letters.discard(other, by="a", because="x"),
        dead_letters.requeue(other),
        dead_letters.discard(other, by="c", because="y"),
    ]

    shard = int(one.id.partition("-")[0])
    assert of_one == ["requeued", "requeued", "already"]
    assert of_other == ["discarded", "discarded", "already"]
    assert client.xlen(keys.retry(shard, "g")) == 1
    assert client.xlen(keys.dead(shard)) == 4  # two letters, two records
    assert (before, (await overview(pipeline, keys=keys)).open_dead_letters) == (2, 0)


async def test_nothing_can_be_decided_about_what_is_no_letter(
    stream: EventStream, pipeline: Pipeline, keys: Keys, dead_letters: DeadLetters, client: Any
) -> None:
    event = an_event()
    await stream.append(event)
    await give_up_all(await reader_of(pipeline, keys), pipeline, keys)
    (letter,) = dead_letters.letters()
    dead_letters.discard(letter, by="a", because="x")
    shard = keys.shard_of(event)
    record = client.xrange(keys.dead(shard))[1][0].decode()

    answers = [dead_letters.requeue(f"{shard}-{record}"), dead_letters.discard(f"{shard}-1-1", by="a", because="x")]

    assert answers == ["gone", "gone"]
    assert [dead_letters.find(name) for name in (f"{shard}-{record}", "99-1-1", "nobody", f"{shard}-1-1")] == [[], [], [], []]


async def test_a_filter_lets_only_its_own_pass(stream: EventStream, pipeline: Pipeline, keys: Keys, dead_letters: DeadLetters) -> None:
    reader = await reader_of(pipeline, keys)
    await stream.append(an_event(event_type="github.pull_request.opened", tenant_id="acme"))
    await give_up_all(reader, pipeline, keys, reason="rejected: too old")
    await stream.append(an_event(source="billing", event_type="github.push"))
    await give_up_all(reader, pipeline, keys, reason="failed 4 times")
    now = Clock().now()

    def found(**wanted: Any) -> list[str]:
        return [letter.event.event_type for letter in dead_letters.letters(chosen=LetterFilter(**wanted)) if letter.event]

    pull_request, push = "github.pull_request.opened", "github.push"
    assert found() == [push, pull_request]
    assert found(event_type="github.*") == [push, pull_request]
    assert found(event_type="github.pull_request.*") == found(tenant="acme") == found(reason="too old") == [pull_request]
    assert found(event_type="github.pu") == found(event_type="github.pu.*") == found(group="other") == found(state="requeued") == []
    assert found(source="billing") == found(event_type=push) == [push]
    assert found(since=now - timedelta(minutes=5), until=now + timedelta(minutes=5)) == [push, pull_request]
    assert found(since=now + timedelta(minutes=5)) == found(until=now - timedelta(minutes=5)) == []


async def test_thousands_of_letters_are_requeued_a_few_at_a_time(
    pipeline: Pipeline, keys: Keys, dead_letters: DeadLetters, client: Any
) -> None:
    reader, letters, body = await reader_of(pipeline, keys), 2000, "x" * 10_000
    together = client.pipeline(transaction=False)
    for number in range(letters):
        add_foreign(together, keys.events(number % keys.shards, "low"), {"number": str(number), "body": body})
    together.execute()
    await give_up_all(reader, pipeline, keys)
    everything, ends = LetterFilter(state="open"), dead_letters.ends()
    tracemalloc.start()

    counted = sum(1 for _ in dead_letters.ids(everything, ends=ends))
    answers = [dead_letters.requeue(letter) for letter in dead_letters.ids(everything, ends=ends)]
    _, most_bytes = tracemalloc.get_traced_memory()
    tracemalloc.stop()

    assert counted == letters
    assert answers == ["requeued"] * letters
    assert sum(client.xlen(keys.retry(shard, "g")) for shard in keys.all_shards()) == letters
    assert most_bytes < letters * len(body) / 5
    assert list(dead_letters.ids(everything, ends=ends)) == []


async def test_what_becomes_a_letter_after_the_count_is_not_among_the_chosen(
    stream: EventStream, pipeline: Pipeline, keys: Keys, dead_letters: DeadLetters
) -> None:
    reader = await reader_of(pipeline, keys)
    await stream.append(an_event(key="one shard"))
    await give_up_all(reader, pipeline, keys)
    ends = dead_letters.ends()
    await stream.append(an_event(key="one shard"))
    await give_up_all(reader, pipeline, keys)

    assert len(list(dead_letters.letters())) == 2
    assert len(list(dead_letters.ids(LetterFilter(), ends=ends))) == 1
    later = LetterFilter(until=Clock().now() + timedelta(hours=1))
    assert len(list(dead_letters.ids(later, ends=ends))) == 1
