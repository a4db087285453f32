"""The ASGI edge, called without a server: what nobody expected is still no fault of the sender."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from starlette.types import Message, Scope

from infra.settings import LogSettings
from infra.streams.stream import EventStream
from infra.telemetry import Telemetry
from ingest.app import App
from ingest.limits import InFlight
from ingest.receive import Receiver
from ingest.sources import Sources
from tests.ingest.inside import receiver_inside
from tests.ingest.receivers import PATH, PUSH, signed_headers


@pytest.fixture
async def receiver(home: Path, log: LogSettings, telemetry: Telemetry) -> Receiver:
    stream = EventStream.open(log, home=home)
    return receiver_inside(home, log=log, stream=stream, telemetry=telemetry, in_flight=InFlight(1, limit_bytes=1000))


class Exchange:
    """One request whose body comes when the test says so, and its answer."""

    def __init__(self) -> None:
        headers = [(name.encode(), value.encode()) for name, value in signed_headers(PUSH).items()]
        self.scope: Scope = {
            "type": "http",
            "method": "POST",
            "path": PATH,
            "raw_path": PATH.encode(),
            "query_string": b"",
            "headers": headers,
        }
        self.body: asyncio.Queue[Message] = asyncio.Queue()
        self.sent: list[Message] = []

    def send_body(self) -> None:
        self.body.put_nowait({"type": "http.request", "body": PUSH, "more_body": False})

    async def run(self, app: App) -> None:
        async def send(message: Message) -> None:
            self.sent.append(message)

        await app(self.scope, self.body.get, send)

    @property
    def status(self) -> int:
        return int(self.sent[0]["status"])

    @property
    def headers(self) -> dict[bytes, bytes]:
        return dict(self.sent[0]["headers"])

    @property
    def error(self) -> Any:
        return json.loads(self.sent[1]["body"])["error"]


async def test_a_bug_of_ours_is_503_and_its_traceback_goes_to_the_log(receiver: Receiver, capsys: pytest.CaptureFixture[str]) -> None:
    source = receiver.sources.find("demo", source="github")
    broken = replace(source, secrets=("no key at all",))  # type: ignore[arg-type]
    exchange = Exchange()
    exchange.send_body()

    await exchange.run(App(replace(receiver, sources=Sources({("demo", "github"): broken}))))

    assert (exchange.status, exchange.error["code"]) == (503, "unavailable")
    assert int(exchange.headers[b"retry-after"]) >= 1
    assert "key" not in exchange.error["message"]
    line = json.loads(capsys.readouterr().err)
    assert line["level"] == "error"
    assert "AttributeError" in line["exception"]


async def test_a_request_that_is_cut_off_by_the_end_of_the_grace_is_503(receiver: Receiver) -> None:
    exchange = Exchange()
    working = asyncio.create_task(exchange.run(App(receiver)))
    await asyncio.sleep(0)

    working.cancel()
    await working

    assert exchange.status == 503


async def test_a_request_above_the_limit_is_503_and_the_next_one_is_not(receiver: Receiver) -> None:
    app = App(receiver)
    second, third = Exchange(), Exchange()

    with receiver.in_flight.request() as first:
        first.arrived()
        await second.run(app)
    third.send_body()
    await third.run(app)

    assert (second.status, second.error["code"]) == (503, "overloaded")
    # It is not accepted, because this receiver has never seen its log; but it had its turn.
    assert third.error["code"] == "stream_unavailable"


async def test_a_body_that_does_not_come_keeps_nobody_out(receiver: Receiver) -> None:
    app = App(receiver)
    slow, quick = Exchange(), Exchange()
    waiting = asyncio.create_task(slow.run(app))
    await asyncio.sleep(0)

    quick.send_body()
    await quick.run(app)
    slow.send_body()
    await waiting

    assert (quick.error["code"], slow.error["code"]) == ("stream_unavailable", "stream_unavailable")
