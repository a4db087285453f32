"""A request that is released becomes the events that the receiver would have made of it, unless somebody discarded it."""

from __future__ import annotations

import asyncio
import gzip
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from infra.clock import Clock
from infra.settings import LogSettings
from infra.streams.keys import Keys
from infra.streams.letter_filter import LetterFilter
from infra.streams.quarantine import DISCARDED, RELEASED, QuarantinedRequests
from infra.streams.stream import EventStream
from ingest.headers import Headers
from ingest.keys import prepare
from ingest.releasing import Releaser, events_of
from ingest.request import Request
from ingest.scheme import Header
from ingest.schemes import GENERIC
from ingest.signatures import sign
from ingest.sources import Source, Sources
from schemas.errors import StreamUnavailable
from schemas.event import Priority
from schemas.quarantined import QuarantinedRequest
from tests.logs import client as client
from tests.logs import keys as keys

THEN = datetime(2026, 1, 15, 12, 0, tzinfo=UTC)
BODY = b'[{"n": 1}, {"n": 2}]'
SCHEME = replace(GENERIC, signature=Header("x-signature"), namespace="batches", is_batch=True)
SOURCE = Source(
    tenant="demo",
    name="batches",
    scheme=SCHEME,
    secrets=[prepare(SCHEME, secret=b"a-secret-0123456789abcdef", at="secret")],
    max_body_bytes=1_000_000,
    priority=Priority.DEFAULT,
    splits=True,
)


def refused(body: bytes, headers: dict[str, str]) -> QuarantinedRequest:
    """One that was signed, and was refused for another reason."""
    signed = sign(SCHEME, request=Request(Headers([]), body), secret=SOURCE.secrets[0], now=THEN).headers
    return QuarantinedRequest(
        event_id="019bc1a0-0000-7000-8000-000000000001",
        tenant_id="demo",
        source="batches",
        code="schema_mismatch",
        reason="",
        received_at=THEN,
        headers={**headers, **signed},
        body=body,
    )


@pytest.mark.parametrize("encodings", [(), ("gzip",)])
def test_a_body_is_split_also_where_its_source_may_compress(encodings: tuple[str, ...]) -> None:
    events = events_of(refused(BODY, {}), source=replace(SOURCE, encodings=encodings), now=THEN)

    assert [event.payload for event in events] == [b'{"n": 1}', b'{"n": 2}']


def test_a_body_that_is_compressed_stays_whole() -> None:
    body = gzip.compress(BODY)

    (event,) = events_of(refused(body, {"content-encoding": "gzip"}), source=replace(SOURCE, encodings=("gzip",)), now=THEN)

    assert (event.payload, event.flags) == (body, ("not_split",))


class Desk(QuarantinedRequests):
    """The refused requests as one operator sees them while another one is at work."""

    discards_after_a_look = False
    answer_of_the_other = ""

    def find(self, name: str) -> list[QuarantinedRequest]:
        found = super().find(name)
        if self.discards_after_a_look:
            self.answer_of_the_other = self.close_as(DISCARDED, name, by="you@there", because="a scan")
        return found


@pytest.fixture
def runner() -> Iterator[asyncio.Runner]:
    with asyncio.Runner() as opened:
        yield opened


@pytest.fixture
def stream(log: LogSettings, home: Path, runner: asyncio.Runner) -> Iterator[EventStream]:
    async def open_stream() -> EventStream:
        return EventStream.open(log, home=home)

    opened = runner.run(open_stream())
    yield opened
    runner.run(opened.close())


@pytest.fixture
def desk(log: LogSettings, home: Path) -> Iterator[Desk]:
    opened = Desk.open(log, home=home)
    yield opened
    opened.close()


@pytest.fixture
def releaser(desk: Desk, stream: EventStream, runner: asyncio.Runner) -> Releaser:
    return Releaser(desk, sources=Sources({("demo", "batches"): SOURCE}), stream=stream, runner=runner, clock=Clock())


@pytest.fixture
def name(desk: Desk, stream: EventStream, runner: asyncio.Runner) -> str:
    """One that verifies, and waits for a decision."""
    assert runner.run(stream.quarantine(refused(BODY, {}), cap=10, cap_bytes=10**6))
    (found,) = desk.entries(LetterFilter())
    return found.id


def appended(client: Any, keys: Keys) -> int:
    return sum(client.xlen(stream) for shard in keys.all_shards() for stream in keys.event_streams(shard))


@pytest.mark.fault("QUARANTINE")
def test_what_is_discarded_while_it_is_being_released_is_not_on_the_log(
    desk: Desk, releaser: Releaser, name: str, client: Any, keys: Keys
) -> None:
    desk.discards_after_a_look = True

    answer = releaser.release(name, by="me@here")

    assert (desk.answer_of_the_other, answer, appended(client, keys)) == (DISCARDED, DISCARDED, 0)


@pytest.mark.fault("QUARANTINE")
def test_what_may_be_on_the_log_can_no_longer_be_discarded_and_is_released_by_a_second_try(
    desk: Desk, releaser: Releaser, name: str, client: Any, keys: Keys, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patched:
        patched.setattr(desk, "close_as", an_outage)
        with pytest.raises(StreamUnavailable):
            releaser.release(name, by="me@here")
    half_way = appended(client, keys)

    discarding = desk.close_as(DISCARDED, name, by="you@there", because="a scan")
    again = releaser.release(name, by="me@here")

    assert (half_way, discarding, again, appended(client, keys)) == (2, "releasing", RELEASED, 2)


def an_outage(*_: object, **__: object) -> str:
    raise StreamUnavailable("the log went away")
