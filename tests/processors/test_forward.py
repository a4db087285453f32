"""What an endpoint gets, and what becomes of the event by its answer."""

from __future__ import annotations

import asyncio
import re
import ssl
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from ipaddress import ip_address
from pathlib import Path
from typing import Any

import pytest

from infra.settings import LogSettings, TelemetrySettings
from infra.streams.stream import EventStream
from infra.telemetry import Telemetry
from processors import Reject, Retry
from processors.addresses import Address
from processors.assignment import assigned
from processors.envelope import sign
from processors.forward import LONGEST_WAIT_MS, Answer, forwarding, retry_after_ms, signal_of
from processors.registry import ProcessorSpec
from processors.settings import ForwardSettings, GroupSettings
from processors.worker import Worker
from schemas.errors import ConfigError
from tests.events import an_event
from tests.processors.endpoint import CERTIFICATE, Endpoint, Response, serving
from tests.processors.test_envelope import a_delivery
from tests.processors.waiting import DEADLINE_S, letters, unsettled, until

NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)


@asynccontextmanager
async def forwarder(url: str, home: Path, *, connections: int = 4, **changes: Any) -> AsyncIterator[ProcessorSpec]:
    options = {name: changes.pop(name) for name in ("resolve", "tls") if name in changes}
    settings = ForwardSettings(**{"url": url, "allow_private": True, **changes})
    async with forwarding(settings, at="groups.crm.forward", home=home, connections=connections, **options) as spec:
        yield spec


@asynccontextmanager
async def working(options: GroupSettings, *, log: LogSettings, home: Path) -> AsyncIterator[None]:
    """A real worker of group g, put together as `hooklake work` does."""
    telemetry = Telemetry.start("test", TelemetrySettings(log_level="error"), home=home)
    stop = asyncio.Event()
    async with assigned("g", options=options, module="", home=home) as registry:
        worker = Worker("g", consumer="c1", registry=registry, settings=options, log=log, home=home, telemetry=telemetry)
        task = asyncio.create_task(worker.run(stop))
        try:
            yield
        finally:
            stop.set()
            await asyncio.wait_for(task, DEADLINE_S)
    telemetry.shutdown()


def group(endpoint: Endpoint, *, path: str = "/in", **changes: Any) -> GroupSettings:
    forward = {"url": endpoint.url + path, "allow_private": True, **changes.pop("forward", {})}
    return GroupSettings.model_validate({"block_ms": 50, "retry_delays_ms": (0, 20, 40), "forward": forward, **changes})


def secret_file(home: Path, *, name: str, content: bytes) -> str:
    path = home / name
    path.touch(mode=0o600)
    path.write_bytes(content)
    return f"file:{name}"


async def test_an_event_reaches_its_endpoint_byte_by_byte_and_signed(stream: EventStream, log: LogSettings, home: Path) -> None:
    secret = secret_file(home, name="crm", content=b"a secret of the crm")
    event = an_event(payload=b"\xff\x00\r\n{ not json", content_type="application/octet-stream")
    with serving() as endpoint:
        async with working(group(endpoint, path="/in?a=b", forward={"secret": secret, "headers": {"X-Team": "crm"}}), log=log, home=home):
            await stream.append(event)
            await until(lambda: unsettled(log, home) == 0 and len(endpoint.requests) == 1)

    (request,) = endpoint.requests
    assert (request.method, request.target, request.body) == ("POST", "/in?a=b", event.payload)
    at_s = int(request.headers["webhook-timestamp"])
    assert abs(at_s - time.time()) < 60
    assert request.headers["webhook-signature"] == sign(event.payload, event_id=event.id, at_s=at_s, key=b"a secret of the crm")
    assert request.headers["host"] == endpoint.url.removeprefix("http://")
    assert (request.headers["x-team"], request.headers["content-type"]) == ("crm", "application/octet-stream")
    assert (request.headers["webhook-id"], request.headers["idempotency-key"]) == (event.id, f"g:{event.id}")
    assert letters(log, home) == []


async def test_only_the_named_types_are_forwarded(stream: EventStream, log: LogSettings, home: Path) -> None:
    wanted, other = an_event(event_type="github.push"), an_event(event_type="stripe.invoice.paid")
    with serving() as endpoint:
        async with working(group(endpoint, forward={"types": ["github.*"]}), log=log, home=home):
            await stream.append(other)
            await stream.append(wanted)
            await until(lambda: unsettled(log, home) == 0 and len(endpoint.requests) == 1)

    assert [request.headers["webhook-id"] for request in endpoint.requests] == [wanted.id]


async def test_an_endpoint_that_is_down_for_a_while_gets_the_event_later(stream: EventStream, log: LogSettings, home: Path) -> None:
    with serving() as endpoint:
        endpoint.answers += [Response(503), Response(429, headers={"retry-after": "0"}), Response(cut=True)]
        async with working(group(endpoint), log=log, home=home):
            await stream.append(an_event())
            await until(lambda: unsettled(log, home) == 0 and len(endpoint.requests) == 4)

    assert [request.headers["x-hooklake-attempt"] for request in endpoint.requests] == ["1", "2", "3", "4"]
    assert len({request.headers["idempotency-key"] for request in endpoint.requests}) == 1
    assert letters(log, home) == []


async def test_a_retry_waits_as_long_as_the_endpoint_asks(stream: EventStream, log: LogSettings, home: Path) -> None:
    times: list[float] = []
    with serving() as endpoint:
        endpoint.answers.append(Response(503, headers={"retry-after": "2"}))
        async with working(group(endpoint), log=log, home=home):
            await stream.append(an_event())
            for count in (1, 2):
                await until(lambda count=count: len(endpoint.requests) == count)  # type: ignore[misc]
                times.append(time.monotonic())

    assert times[1] - times[0] > 1.5


async def test_an_answer_that_will_not_change_is_a_dead_letter_with_its_text(stream: EventStream, log: LogSettings, home: Path) -> None:
    with serving() as endpoint:
        endpoint.answers.append(Response(422, body=b"no such customer \xff" + b"x" * 1000))
        async with working(group(endpoint, path="/secret-token"), log=log, home=home):
            await stream.append(an_event())
            await until(lambda: len(letters(log, home)) == 1)

    (letter,) = letters(log, home)
    assert letter.reason == f"rejected: {endpoint.url} answered 422: no such customer \ufffd" + "x" * 482
    assert (letter.attempts, letter.processor) == (1, f"forward:{endpoint.url}")
    assert "secret-token" not in letter.model_dump_json()


async def test_a_redirect_is_not_followed(home: Path) -> None:
    with serving() as endpoint, serving() as elsewhere:
        endpoint.answers.append(Response(302, headers={"location": elsewhere.url}))
        async with forwarder(endpoint.url, home) as spec:
            with pytest.raises(Reject, match="answered 302"):
                await spec.function(an_event(), a_delivery())

    assert elsewhere.requests == []


async def test_a_name_that_leads_to_this_machine_is_refused(stream: EventStream, log: LogSettings, home: Path) -> None:
    with serving() as endpoint:
        url = endpoint.url.replace("127.0.0.1", "localhost")
        async with working(group(endpoint, forward={"url": url, "allow_private": False}), log=log, home=home):
            await stream.append(an_event())
            await until(lambda: len(letters(log, home)) == 1)

    assert re.search(r"rejected: localhost leads to .*127\.0\.0\.1 \(loopback\)", letters(log, home)[0].reason)
    assert endpoint.connections == set()


async def test_tls_verifies_the_name_though_the_address_is_pinned(home: Path) -> None:
    async def this_machine(host: str, port: int) -> list[Address]:
        return [ip_address("127.0.0.1")]

    trusting = ssl.create_default_context(cafile=str(CERTIFICATE))
    with serving(tls=True) as endpoint:
        right, wrong = (endpoint.url.replace("127.0.0.1", host) for host in ("localhost", "other.invalid"))
        async with forwarder(right, home, resolve=this_machine, tls=trusting) as spec:
            await spec.function(an_event(), a_delivery())
        async with forwarder(wrong, home, resolve=this_machine, tls=trusting) as spec:
            with pytest.raises(Retry, match="certificate verify failed"):
                await spec.function(an_event(), a_delivery())
        async with forwarder(right, home, resolve=this_machine) as spec:
            with pytest.raises(Retry, match="certificate verify failed"):
                await spec.function(an_event(), a_delivery())

    assert len(endpoint.requests) == 1


async def test_an_ipv6_address_is_written_in_brackets(home: Path) -> None:
    with serving(host="::1") as endpoint:
        async with forwarder(endpoint.url, home) as spec:
            await spec.function(an_event(), a_delivery())

    assert endpoint.requests[0].headers["host"] == endpoint.url.removeprefix("http://")


async def test_connections_are_used_again_and_are_closed_at_the_end(home: Path) -> None:
    with serving() as endpoint:  # Ends only when its connections do.
        endpoint.answers += [Response(body=b"x" * 60_000)] * 10
        async with forwarder(endpoint.url, home) as spec:
            for _ in range(10):
                await spec.function(an_event(), a_delivery())

    assert len(endpoint.requests) == 10
    assert len(endpoint.connections) == 1


async def test_no_more_connections_are_open_than_allowed(home: Path) -> None:
    with serving() as endpoint:
        async with forwarder(endpoint.url, home, connections=3) as spec:
            await asyncio.gather(*[spec.function(an_event(), a_delivery()) for _ in range(30)])

    assert len(endpoint.requests) == 30
    assert len(endpoint.connections) <= 3


@pytest.mark.parametrize("hangs", ["head", "body", "endless"])
async def test_an_endpoint_that_hangs_uses_up_neither_time_nor_connections(home: Path, hangs: str) -> None:
    with serving() as endpoint:
        endpoint.answers += [Response(503, hangs=hangs)] * 2
        async with forwarder(endpoint.url, home, timeout_ms=1500, connections=1) as spec:
            for _ in range(2):
                async with asyncio.timeout(DEADLINE_S):
                    with pytest.raises(Retry, match="did not answer within 1500 ms" if hangs == "head" else "answered 503"):
                        await spec.function(an_event(), a_delivery())
            await spec.function(an_event(), a_delivery())

    assert len(endpoint.requests) == 3
    # What the kernel's buffers take counts too; without a cap it would be as much as a loopback carries in two seconds.
    assert endpoint.endless_bytes < 2**25


@pytest.mark.parametrize("hangs", ["body", "endless"])
async def test_a_success_whose_body_never_ends_is_a_success(home: Path, hangs: str) -> None:
    with serving() as endpoint:
        endpoint.answers.append(Response(200, hangs=hangs))
        async with asyncio.timeout(DEADLINE_S), forwarder(endpoint.url, home) as spec:
            await spec.function(an_event(), a_delivery())


async def test_an_endpoint_that_nobody_serves_is_tried_again(home: Path) -> None:
    with serving() as endpoint:
        pass

    async with forwarder(endpoint.url, home) as spec:
        with pytest.raises(Retry, match="did not answer: ConnectError"):
            await spec.function(an_event(), a_delivery())


async def test_a_cookie_of_one_answer_is_not_sent_with_the_next_event(home: Path) -> None:
    with serving() as endpoint:
        endpoint.answers.append(Response(200, headers={"set-cookie": "session=of-another-tenant"}))
        async with forwarder(endpoint.url, home) as spec:
            await spec.function(an_event(), a_delivery())
            await spec.function(an_event(tenant_id="other"), a_delivery())

    assert all("cookie" not in request.headers for request in endpoint.requests)


async def test_a_header_may_be_a_reference(home: Path) -> None:
    reference = secret_file(home, name="token", content=b"Bearer t0ken\n")
    with serving() as endpoint:
        async with forwarder(endpoint.url, home, headers={"Authorization": reference}, method="PUT") as spec:
            await spec.function(an_event(), a_delivery())

    assert (endpoint.requests[0].method, endpoint.requests[0].headers["authorization"]) == ("PUT", "Bearer t0ken")


@pytest.mark.parametrize(
    ("changes", "content", "sentence"),
    [
        ({"secret": "file:s"}, b"short", "groups.crm.forward.secret: the secret has 5 bytes, and at least 16 are needed"),
        ({"secret": "written-down-here"}, b"", "groups.crm.forward.secret must be a reference"),
        ({"headers": {"x-token": "file:s"}}, b"a\nb", "groups.crm.forward.headers.x-token is empty or has characters that no header"),
        ({"headers": {"x-a": " a"}}, b"", "groups.crm.forward.headers.x-a is empty or has characters that no header can carry"),
        ({"headers": {"x-a": "env:HOOKLAKE_NO_SUCH"}}, b"", "groups.crm.forward.headers.x-a: the environment has no HOOKLAKE_NO_SUCH"),
    ],
)
async def test_a_secret_that_cannot_be_used_is_refused_at_start(home: Path, changes: dict[str, Any], content: bytes, sentence: str) -> None:
    secret_file(home, name="s", content=content)

    with pytest.raises(ConfigError, match=f"^{re.escape(sentence)}"):
        async with forwarder("https://crm.example", home, **changes):
            pass


def an_answer(status: int, *, retry_after: str = "", text: str = "") -> Answer:
    return Answer(status, retry_after, text)


@pytest.mark.parametrize("status", [200, 201, 202, 204, 299])
def test_any_success_is_an_ack(status: int) -> None:
    assert signal_of(an_answer(status), origin="o", now=NOW) is None


@pytest.mark.parametrize("status", [408, 425, 429, 500, 502, 503, 504, 599])
def test_what_may_pass_is_tried_again(status: int) -> None:
    signal = signal_of(an_answer(status, retry_after="7", text="busy"), origin="o", now=NOW)

    assert isinstance(signal, Retry)
    assert (signal.after_ms, str(signal)) == (7000, f"o answered {status}: busy")


@pytest.mark.parametrize("status", [300, 301, 302, 304, 307, 308, 400, 401, 403, 404, 409, 410, 413, 422, 499])
def test_what_will_not_pass_is_given_up(status: int) -> None:
    assert isinstance(signal_of(an_answer(status, retry_after="7"), origin="o", now=NOW), Reject)


@pytest.mark.parametrize(
    ("value", "wait_ms"),
    [
        ("0", 0),
        ("120", 120_000),
        ("999999999", LONGEST_WAIT_MS),
        ("Fri, 02 Jan 2026 03:04:35 GMT", 30_000),
        ("Fri, 02 Jan 2026 03:04:35 -0000", 30_000),
        ("Fri, 02 Jan 2026 03:00:00 GMT", 0),
        ("Fri, 02 Jan 2099 03:00:00 GMT", LONGEST_WAIT_MS),
        ("", None),
        ("soon", None),
        ("-5", None),
        ("1_0", None),
        ("\u0661", None),
        ("1.5", None),
        ("Fri, 99 Jan 2026 03:04:35 GMT", None),
    ],
)
def test_retry_after_is_seconds_or_a_date_up_to_an_hour(value: str, wait_ms: int | None) -> None:
    assert retry_after_ms(value, now=NOW) == wait_ms


def test_without_a_retry_after_the_groups_schedule_decides() -> None:
    signal = signal_of(an_answer(503), origin="o", now=NOW)

    assert isinstance(signal, Retry)
    assert signal.after_ms is None
