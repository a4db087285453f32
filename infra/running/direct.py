"""Owns the short way of a request that is here to its last byte: to whoever answers it and back, past ASGI.

ASGI's scope, messages and two sends cost as much as all else that is done for a webhook. Only what is whole takes this way: what
comes in pieces needs the deadlines and limits of the long one, and has time for it.
"""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Callable
from typing import NamedTuple, Protocol

from uvicorn.protocols.http.httptools_impl import STATUS_LINE

HeaderLines = tuple[tuple[bytes, bytes], ...]
Answer = tuple[int, HeaderLines, bytes]
"""Status, headers and body, as ASGI sends them."""
_CLOSE = (b"connection", b"close")


# Nearly all answers of a second have one of a few heads.
@functools.lru_cache(maxsize=1024)
def _head(status: int, headers: HeaderLines) -> bytes:
    return b"%b%b\r\n" % (STATUS_LINE[status], b"".join([b"%b: %b\r\n" % header for header in headers]))


class Arrived(NamedTuple):
    """A POST of HTTP/1.1, whole."""

    target: bytes
    headers: list[tuple[bytes, bytes]]
    """Names in lower case."""
    body: bytes
    peer: str
    head_bytes: int
    """At most so many had the head."""


class Nobody:
    """Who would be told that a body goes on, or that its sender is gone: nobody waits for either here."""

    def set(self) -> None:
        return


class Exchange:
    """One request on its short way; to uvicorn, which queues others behind it and waits for its end, a cycle of its own."""

    __slots__ = ("_connection", "_transport", "disconnected", "keep_alive", "response_complete")
    message_event = Nobody()

    def __init__(self, connection: Connection, *, transport: asyncio.Transport, keep_alive: bool) -> None:
        self._connection = connection
        self._transport = transport
        self.keep_alive = keep_alive
        self.disconnected = False
        self.response_complete = False

    def head(self, status: int, headers: HeaderLines) -> bytes:
        """What an answer begins with just now, to whoever keeps his connection: for who has many of them to give."""
        return _head(status, (*self._connection.default_headers, *headers))

    def answer_with(self, head: bytes, body: bytes) -> None:
        """The same as `answer`, of what begins like others; only where the connection is kept."""
        self.response_complete = True
        if not self.disconnected and not self._transport.is_closing():
            self._transport.write(head + body)
            self._connection.on_response_complete()

    def answer(self, answer: Answer) -> None:
        """To be called once, at any time."""
        self.response_complete = True
        if self.disconnected or self._transport.is_closing():
            return
        status, headers, body = answer
        headers = (*self._connection.default_headers, *headers)
        if _CLOSE in headers:
            self.keep_alive = False
        elif not self.keep_alive:
            headers = (*headers, _CLOSE)
        self._transport.write(_head(status, headers) + body)
        if not self.keep_alive:
            self._transport.close()
        self._connection.on_response_complete()


class Connection(Protocol):
    """Who is told that a request has been answered."""

    @property
    def default_headers(self) -> HeaderLines: ...

    def on_response_complete(self) -> None: ...


Direct = Callable[[Arrived, Exchange], bool]
"""Begins to answer a request, which must have its answer at some time, whatever happens; or leaves it to the application (false)."""
