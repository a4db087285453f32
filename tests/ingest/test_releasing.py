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
from ingest.providers_standards import AWS_SNS
from ingest.releasing import WOULD, Releaser, events_of
from ingest.request import Request
from ingest.scheme import Header
from ingest.schemes import GENERIC
from ingest.signatures import sign
from ingest.sources import Source, Sources
from ingest.subscriptions import Call, Subscription
from schemas.errors import StreamUnavailable
from schemas.event import Priority
from schemas.quarantined import QuarantinedRequest
from tests.ingest.test_subscriptions import ANSWERING, CONFIRMATION, TOPIC, called, certificate, signed
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


@pytest.fixture
def sns() -> tuple[Source, QuarantinedRequest]:
    """A source that confirms, and a confirmation of its topic that was refused, as the certificate was missing in the settings."""
    key, pem = certificate("sns.amazonaws.com")
    secrets = [prepare(AWS_SNS, secret=pem, at="secret")]
    source = replace(SOURCE, name="sns", scheme=AWS_SNS, secrets=secrets, splits=False, answering=ANSWERING)
    return source, refused(BODY, {}).model_copy(update={"source": "sns", "body": signed(key, CONFIRMATION)})


class Subscribing:
    """A releaser with one confirmation in the quarantine, whose calls to Amazon end at `call`."""

    def __init__(self, desk: Desk, stream: EventStream, runner: asyncio.Runner, sns: tuple[Source, QuarantinedRequest], call: Call) -> None:
        source, request = sns
        assert runner.run(stream.quarantine(request, cap=10, cap_bytes=10**6))
        (self.name,) = (found.id for found in desk.entries(LetterFilter()))
        sources = Sources({("demo", "sns"): source})
        self.releaser = Releaser(desk, sources=sources, stream=stream, runner=runner, clock=Clock(), call=call)


def test_a_subscription_that_is_released_is_confirmed_once_and_not_by_a_look(
    desk: Desk, stream: EventStream, runner: asyncio.Runner, sns: tuple[Source, QuarantinedRequest], client: Any, keys: Keys
) -> None:
    asked: list[tuple[str, str]] = []

    async def note(host: str, target: str) -> str:
        asked.append((host, target))
        return ""

    one = Subscribing(desk, stream, runner, sns, note)
    looks = one.releaser.look_at(one.name), list(asked)
    answers = [one.releaser.release(one.name, by="me@here") for _ in range(2)]

    assert (looks, answers) == ((WOULD, []), [RELEASED, "already"])
    assert asked == [("sns.us-west-2.amazonaws.com", Subscription(TOPIC, "2336412f37").target)]
    assert (one.releaser.subscriptions, appended(client, keys)) == ({TOPIC: ""}, 1)


def test_a_subscription_that_is_answered_with_a_redirect_is_released_and_not_confirmed(
    desk: Desk, stream: EventStream, runner: asyncio.Runner, sns: tuple[Source, QuarantinedRequest], tmp_path: Path
) -> None:
    async def redirected(host: str, target: str) -> str:
        answer = b"HTTP/1.1 302 Found\r\nlocation: http://169.254.169.254/\r\n\r\n"
        return (await called(tmp_path, answer=answer, name=host, target=target))[0]

    one = Subscribing(desk, stream, runner, sns, redirected)
    answer = one.releaser.release(one.name, by="me@here")

    assert (answer, one.releaser.subscriptions) == (RELEASED, {TOPIC: "the answer was 302"})


def test_where_the_source_confirms_nothing_a_subscription_is_only_stored(
    desk: Desk, stream: EventStream, runner: asyncio.Runner, sns: tuple[Source, QuarantinedRequest]
) -> None:
    source, request = sns
    silent = replace(source, answering=replace(ANSWERING, confirms=False))

    async def never(host: str, target: str) -> str:
        raise AssertionError(host)

    one = Subscribing(desk, stream, runner, (silent, request), never)
    answer = one.releaser.release(one.name, by="me@here")

    assert (answer, one.releaser.subscriptions) == (RELEASED, {})


def test_what_was_confirmed_once_stays_so_when_an_older_token_is_refused(
    desk: Desk, stream: EventStream, runner: asyncio.Runner, sns: tuple[Source, QuarantinedRequest]
) -> None:
    answers = iter(["the answer was 500", "", "the answer was 400"])

    async def answer(host: str, target: str) -> str:
        return next(answers)

    one = Subscribing(desk, stream, runner, sns, answer)
    told = []
    for _ in range(3):
        runner.run(one.releaser._confirm(Subscription(TOPIC, "t0ken")))
        told.append(one.releaser.subscriptions[TOPIC])

    assert told == ["the answer was 500", "", ""]
