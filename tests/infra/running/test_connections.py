"""Which of the two ways a request takes that is here to its last byte, as far as its connection decides it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from starlette.types import Receive, Scope, Send
from uvicorn.server import ServerState

from infra.running.connections import Connection
from infra.running.direct import Arrived, Exchange
from infra.running.serving import _Config
from infra.running.serving_limits import ServingLimits

DEADLINE_S = 20.0
REQUEST = b"POST /hooks/demo/github HTTP/1.1\r\nhost: a\r\ncontent-length: 2\r\n\r\n{}"


class Client(asyncio.Transport):
    """What is written to a client, as its connection's transport."""

    def __init__(self) -> None:
        super().__init__()
        self.written = b""

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return ("192.0.2.7", 1234) if name in {"peername", "sockname"} else default

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.written += data

    def is_closing(self) -> bool:
        return False

    def close(self) -> None:
        raise AssertionError("nobody has asked for an end of this connection")


class Serving:
    """An application, one connection to it, and who was asked about what came over that."""

    def __init__(self) -> None:
        self.ways: list[str] = []
        self.is_answered = asyncio.Event()
        config = _Config(self, limits=ServingLimits(), direct=self._direct)
        config.load()
        self.connection = Connection(config=config, server_state=ServerState(), app_state={})
        self.connection.connection_made(Client())

    def _direct(self, arrived: Arrived, exchange: Exchange) -> bool:
        self.ways.append(f"short: {arrived.body.decode()}")
        exchange.answer((202, (), b""))
        return True

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self.ways.append("long")
        await send({"type": "http.response.start", "status": 202, "headers": [(b"content-length", b"0")]})
        await send({"type": "http.response.body", "body": b""})
        self.is_answered.set()


async def test_a_request_that_is_whole_takes_the_short_way() -> None:
    serving = Serving()

    serving.connection.data_received(REQUEST)

    assert serving.ways == ["short: {}"]


@pytest.mark.parametrize(
    "happens",
    [
        pytest.param(lambda connection: connection.flow.pause_writing(), id="who reads no answers"),
        pytest.param(lambda connection: connection.data_received(REQUEST[:-1]), id="a body in pieces"),
    ],
)
async def test_what_has_to_be_waited_for_is_the_application_s(happens: Callable[[Connection], None]) -> None:
    serving = Serving()
    happens(serving.connection)

    serving.connection.data_received(REQUEST if serving.connection.flow.write_paused else REQUEST[-1:])
    serving.connection.flow.resume_writing()
    async with asyncio.timeout(DEADLINE_S):
        await serving.is_answered.wait()

    assert serving.ways == ["long"]
