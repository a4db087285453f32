"""Owns sending the head of an answer together with its body: one write, where uvicorn makes two, each with its system call and packet."""

from __future__ import annotations

import asyncio

GO_ON = b"HTTP/1.1 100 "
"""What the sender waits for before it sends its body."""


class Corked:
    """A transport, as the answer to one request sees it: its first write, which is the head, waits for the second one."""

    __slots__ = ("_head", "_is_open", "_transport")

    def __init__(self, transport: asyncio.Transport) -> None:
        self._transport = transport
        self._head = b""
        self._is_open = False
        """True once the head is on its way."""

    def write(self, data: bytes) -> None:
        if self._is_open or data.startswith(GO_ON):
            self._transport.write(data)
        elif self._head:
            self._uncork(data)
        else:
            self._head = data

    def close(self) -> None:
        if self._head and not self._is_open:
            self._uncork(b"")
        self._transport.close()

    def is_closing(self) -> bool:
        return self._transport.is_closing()

    def _uncork(self, data: bytes) -> None:
        self._is_open = True
        self._transport.write(self._head + data)
