"""Owns one connection without a socket: what comes over it, which way it is answered, and what is written back."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable
from typing import Any

import pytest
from starlette.types import Receive, Scope, Send
from uvicorn.server import ServerState

from infra.running.connections import Connection
from infra.running.direct import Arrived, Exchange
from infra.running.serving import _Config
from infra.running.serving_limits import ServingLimits

DEADLINE_S = 10.0
HEAD = b"POST /hooks/demo/github HTTP/1.1\r\nhost: a\r\n"
REQUEST = HEAD + b"content-length: 2\r\n\r\n{}"
CLOSING = HEAD + b"connection: close\r\ncontent-length: 0\r\n\r\n"
LONG_REQUEST = HEAD + b"content-length: 120000\r\n\r\n" + b"x" * 120_000
BOTH_WAYS = pytest.mark.parametrize("is_short", [pytest.param(True, id="short way"), pytest.param(False, id="long way")])


class Client(asyncio.Transport):
    """What is written to a client, as its connection's transport."""

    def __init__(self) -> None:
        super().__init__()
        self.written = b""
        self.is_closed = False
        self.is_aborted = False

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return ("192.0.2.7", 1234) if name in {"peername", "sockname"} else default

    def write(self, data: bytes | bytearray | memoryview) -> None:
        assert not self.is_closed
        self.written += data

    def is_closing(self) -> bool:
        return self.is_closed

    def close(self) -> None:
        self.is_closed = True

    def abort(self) -> None:
        self.is_closed = self.is_aborted = True

    def pause_reading(self) -> None:
        return

    def resume_reading(self) -> None:
        return

    @property
    def statuses(self) -> list[int]:
        return [int(status) for status in re.findall(rb"HTTP/1.1 (\d+) ", self.written)]


class Serving:
    """An application, one connection to it, and who was asked about what came over that; answers wait for `may_answer`."""

    def __init__(self, *, is_short: bool = True, client: Client | None = None, **limits: int) -> None:
        self.on_answer: Callable[[], None] = lambda: None
        self.ways: list[str] = []
        self.may_answer = asyncio.Event()
        self.may_answer.set()
        self.is_answered = asyncio.Event()
        self._is_short = is_short
        self._answering: list[asyncio.Task[None]] = []
        config = _Config(self, limits=ServingLimits(**limits), direct=self._direct)
        config.load()
        self.connection = Connection(config=config, server_state=ServerState(), app_state={})
        self.client = client or Client()
        self.connection.connection_made(self.client)

    def _direct(self, arrived: Arrived, exchange: Exchange) -> bool:
        if not self._is_short:
            return False
        self.ways.append(f"short: {arrived.body.decode()}")
        if self.may_answer.is_set():
            exchange.answer((202, (), b""))
        else:
            self._answering.append(asyncio.create_task(self._answer(exchange)))
        return True

    async def _answer(self, exchange: Exchange) -> None:
        await self.may_answer.wait()
        self.on_answer()
        exchange.answer((202, (), b""))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self.ways.append("long")
        while (await receive()).get("more_body"):
            pass
        await self.may_answer.wait()
        self.on_answer()
        await send({"type": "http.response.start", "status": 202, "headers": [(b"content-length", b"0")]})
        await send({"type": "http.response.body", "body": b""})
        self.is_answered.set()


async def eventually(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(DEADLINE_S):
        while not condition():  # noqa: ASYNC110 - of what is written to a client nobody sets an event
            await asyncio.sleep(0.005)
