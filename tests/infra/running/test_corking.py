"""The head of an answer and its body in one write."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Iterator
from typing import cast

import pytest

from infra.running.corking import Corked


class Written:
    """A transport over a socket that keeps the bounds of what was sent: each write arrives by itself."""

    def __init__(self) -> None:
        self._here, self._there = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._there.settimeout(10)

    def write(self, data: bytes) -> None:
        self._here.send(data)

    def close(self) -> None:
        self._here.close()

    def is_closing(self) -> bool:
        return self._here.fileno() < 0

    def arrived(self) -> list[bytes]:
        """Everything that was ever written; ends the connection."""
        self.close()
        with self._there:
            return list(iter(lambda: self._there.recv(65536), b""))


@pytest.fixture
def written() -> Iterator[Written]:
    transport = Written()
    yield transport
    transport.close()


@pytest.fixture
def corked(written: Written) -> Corked:
    return Corked(cast(asyncio.Transport, written))


def test_a_head_is_written_with_the_first_piece_of_its_body_and_the_rest_as_it_comes(written: Written, corked: Corked) -> None:
    for piece in (b"head ", b"first ", b"second ", b"third"):
        corked.write(piece)

    assert written.arrived() == [b"head first ", b"second ", b"third"]


def test_a_sender_that_asks_whether_it_may_go_on_is_told_at_once(written: Written, corked: Corked) -> None:
    for piece in (b"HTTP/1.1 100 Continue\r\n\r\n", b"head ", b"body"):
        corked.write(piece)

    assert written.arrived() == [b"HTTP/1.1 100 Continue\r\n\r\n", b"head body"]


def test_an_empty_body_lets_the_head_go(written: Written, corked: Corked) -> None:
    corked.write(b"head")
    corked.write(b"")

    assert written.arrived() == [b"head"]


def test_a_head_without_a_body_is_not_lost_when_the_connection_is_closed(written: Written, corked: Corked) -> None:
    corked.write(b"head")
    corked.close()

    assert corked.is_closing()
    assert written.arrived() == [b"head"]
