"""Owns the answer to what is no request for the application: its bytes, and its turn behind the answers to earlier requests."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import orjson
from uvicorn.protocols.http.httptools_impl import STATUS_LINE

from infra.running.direct import Nobody
from schemas.errors import Overloaded, Refused


def refusal(error: Refused | Overloaded, *, status: int) -> bytes:
    """A whole answer; the connection ends with it."""
    body = orjson.dumps({"error": {"code": error.code, "message": str(error)}})
    again = b"retry-after: %d\r\n" % error.retry_after_s if isinstance(error, Overloaded) else b""
    head = b"content-type: application/json\r\ncontent-length: %d\r\nconnection: close\r\n%b\r\n" % (len(body), again)
    return STATUS_LINE[status] + head + body


class QueuedRefusal:
    """A refusal behind other answers: to uvicorn, which begins it in its turn, a cycle; to what is sent later, a parser that drops it."""

    __slots__ = ("_close", "_said", "_transport", "disconnected", "keep_alive", "response_complete")
    message_event = Nobody()

    def __init__(self, said: bytes, *, transport: asyncio.Transport, close: Callable[[], None]) -> None:
        self._said = said
        self._transport = transport
        self._close = close
        self.keep_alive = False
        self.disconnected = False
        self.response_complete = False

    async def run_asgi(self, _app: object) -> None:
        self.response_complete = True
        if not self._transport.is_closing():
            self._transport.write(self._said)
            self._close()

    def feed_data(self, _data: bytes) -> None:
        return
