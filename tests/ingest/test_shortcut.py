"""The short way of a webhook: which requests take it, and that nobody can tell by the answer or the event which way it was."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from pathlib import Path

import pytest

from infra.clock import Clock
from infra.running.direct import Arrived
from infra.settings import LogSettings, TelemetrySettings
from infra.streams.gathering import Batch
from infra.streams.stream import EventStream
from infra.telemetry import Telemetry
from ingest.app import App
from ingest.keeping import Keeper
from ingest.limits import InFlight
from ingest.receive import Receiver
from ingest.settings import IngestSettings
from ingest.spool import Spool
from schemas.errors import StreamUnavailable
from schemas.event import StreamEvent
from tests.events import events_of_all_shards
from tests.ingest.inside import Written, arrived, exchange_of, receiver_inside
from tests.ingest.receivers import PATH, RunningReceiver, post, signed_headers

DEADLINE_S = 20.0
MOST_BYTES = 100_000


@pytest.fixture
async def inside(home: Path, log: LogSettings, telemetry: Telemetry) -> AsyncIterator[Receiver]:
    stream, spool = EventStream.open(log, home=home), Spool.hold(home, max_bytes=1_000_000, clock=Clock())
    spool.start()
    in_flight = InFlight(2, limit_bytes=MOST_BYTES)
    receiver = receiver_inside(home, log=log, stream=stream, telemetry=telemetry, in_flight=in_flight, spool=spool)
    receiver.keeper._appender.watch.look()
    yield receiver
    await spool.close()
    await stream.close()


async def answered(app: App, request: Arrived, *, keep_alive: bool = True) -> Written | None:
    """The answer, or None for what takes the long way."""
    client = Written()
    if not app.direct(request, exchange_of(client, keep_alive=keep_alive)):
        assert not client.data
        return None
    async with asyncio.timeout(DEADLINE_S):
        await client.answered.wait()
    return client


async def test_a_push_that_is_whole_takes_the_short_way(inside: Receiver) -> None:
    app, request = App(inside), arrived()

    first, second = await answered(app, request), await answered(app, request)

    assert first is not None
    assert second is not None
    assert (first.status, json.loads(first.data.rpartition(b"\r\n")[2])["duplicate"]) == (202, False)
    assert (second.status, json.loads(second.data.rpartition(b"\r\n")[2])["duplicate"]) == (202, True)
    assert not first.is_closed


async def test_who_wants_his_connection_closed_has_it_closed(inside: Receiver) -> None:
    client = await answered(App(inside), arrived(), keep_alive=False)

    assert client is not None
    assert (b"connection: close" in client.data, client.is_closed) == (True, True)


@pytest.mark.parametrize(
    "request_of",
    [
        lambda: arrived(target="/hooks/demo/nobody"),
        lambda: arrived(target=PATH + "?a=b"),
        lambda: arrived(more=((b"x-hub-signature-256", b"sha256=0"),)),
        lambda: arrived(more=((b"x-github-event", b"push"),)),
        lambda: arrived(head_bytes=IngestSettings().max_header_bytes + 1),
        lambda: arrived(more=tuple((b"x-%d" % number, b"") for number in range(IngestSettings().max_headers))),
        lambda: arrived(x_hub_signature_256="sha256=" + "0" * 64),
        lambda: arrived(b"{" + b" " * 200_000 + b"}"),
        lambda: arrived(b"no JSON"),
    ],
    ids=["source", "query", "two-signatures", "two-types", "large-head", "many-headers", "forged", "large-body", "no-json"],
)
async def test_what_is_not_as_usual_takes_the_long_way(inside: Receiver, request_of: Callable[[], Arrived]) -> None:
    assert await answered(App(inside), request_of()) is None


async def test_requests_above_a_limit_take_the_long_way_which_refuses_them(inside: Receiver) -> None:
    app = App(inside)

    with inside.in_flight.request() as first, inside.in_flight.request() as second:
        first.arrived()
        second.arrived()
        assert await answered(app, arrived()) is None
    with inside.in_flight.request() as held:
        held.grow(MOST_BYTES)
        assert await answered(app, arrived()) is None
    for _ in range(5):  # what it holds is given back with every answer
        assert await answered(app, arrived()) is not None


async def test_spans_that_are_recorded_are_those_of_the_long_way(inside: Receiver, home: Path) -> None:
    recording = Telemetry.start("ingest", TelemetrySettings(traces="file:spans.jsonl"), home=home)

    assert await answered(App(replace(inside, telemetry=recording)), arrived()) is None

    recording.shutdown()


def refuse(batch: Batch) -> None:
    """What a log does that somebody took away."""
    asyncio.get_running_loop().call_soon(batch.fail, StreamUnavailable("a test took the log away"))


async def test_what_the_log_does_not_take_is_spooled_and_so_is_what_follows(inside: Receiver, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inside.keeper._stream, "begin", refuse)
    app = App(inside)

    clients = [await answered(app, arrived()), await answered(app, arrived())]

    for client in clients:
        assert client is not None
        assert (client.status, json.loads(client.data.rpartition(b"\r\n")[2])["spooled"]) == (202, True)


async def test_nothing_overtakes_what_waits_in_the_spool(inside: Receiver, log: LogSettings) -> None:
    app, spool = App(inside), inside.keeper._spool
    assert spool is not None
    for event in events_of_all_shards(log, count=log.shards):
        await spool.keep([event], shard=inside.keeper._stream.shard_of(event))

    client = await answered(app, arrived())

    assert client is not None
    assert (client.status, json.loads(client.data.rpartition(b"\r\n")[2])["spooled"]) == (202, True)


async def test_a_log_that_is_not_proven_fit_is_not_even_asked(inside: Receiver, monkeypatch: pytest.MonkeyPatch) -> None:
    begun: list[Batch] = []
    monkeypatch.setattr(inside.keeper._stream, "begin", begun.append)
    monkeypatch.setattr(inside.keeper._appender.watch, "is_fit", False)

    client = await answered(App(inside), arrived())

    assert client is not None
    assert (client.status, json.loads(client.data.rpartition(b"\r\n")[2])["spooled"], begun) == (202, True, [])


async def test_without_a_spool_a_log_that_fails_is_503(inside: Receiver, monkeypatch: pytest.MonkeyPatch) -> None:
    without = Keeper(inside.keeper._appender, spool=None)
    app = App(replace(inside, keeper=without))
    monkeypatch.setattr(without._stream, "begin", refuse)

    client = await answered(app, arrived())

    assert client is not None
    assert (client.status, b"retry-after: " in client.data) == (503, True)


async def test_a_sender_that_is_gone_is_not_written_to(inside: Receiver) -> None:
    app, client = App(inside), Written()
    exchange = exchange_of(client)

    assert app.direct(arrived(), exchange)
    exchange.disconnected = True
    other = await answered(app, arrived())  # appended after the first, so that both are done

    assert other is not None
    assert exchange.response_complete
    assert client.data == b""


async def test_a_bug_of_ours_is_503_before_the_append_and_after_it(inside: Receiver, monkeypatch: pytest.MonkeyPatch) -> None:
    app = App(inside)

    with monkeypatch.context() as patch:
        patch.setattr(inside.key_use, "last_used", None)
        before = await answered(app, arrived())
    with monkeypatch.context() as patch:
        patch.setattr(inside.telemetry, "produced", None)
        after = await answered(app, arrived())

    assert before is not None
    assert after is not None
    assert (before.status, after.status) == (503, 503)
    for _ in range(5):  # and nothing of either is held
        assert await answered(app, arrived()) is not None


def test_both_ways_make_the_same_event(receiver: RunningReceiver, stored: Callable[[], dict[str, StreamEvent]]) -> None:
    body = '{"action": "opened", "repository": {"full_name": "octo/hello"}, "a":"ü\\u00e9"}\r\n'.encode()
    headers = signed_headers(body, x_github_event="pull_request", user_agent="GitHub-Hookshot/1", authorization="Bearer x")
    answers = [
        # What has a query takes the long way.
        post(receiver.port, body=body, headers={**headers, "x-github-delivery": f"d{query}"}, path=PATH + query)
        for query in ("", "?long")
    ]

    found = stored()
    short, long = (found[answer.json["event_id"]] for answer in answers)
    of_its_own = {"id", "delivery_id", "timestamp", "traceparent", "auth_context", "headers"}
    assert [answer.status for answer in answers] == [202, 202]
    assert {name.lower() for name in answers[0].headers} == {name.lower() for name in answers[1].headers}
    assert short.model_dump(exclude=of_its_own) == long.model_dump(exclude=of_its_own)
    assert short.auth_context.model_dump(exclude={"verified_at"}) == long.auth_context.model_dump(exclude={"verified_at"})
    assert {**short.headers, "x-github-delivery": ""} == {**long.headers, "x-github-delivery": ""}
