"""Owns one attack's connection: sends its bytes, and reads whatever comes back until the exchange is over or its deadline is."""

from __future__ import annotations

import asyncio
import json
import socket
import struct
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from tests.faults.hostile.attacks import Attack

DEADLINE_S = 15.0
# After an answer: is there another one, to a request that was hidden in the first?
LINGER_S = 0.05


@dataclass(slots=True)
class Exchange:
    """What became of an attack."""

    attack: Attack
    statuses: list[int] = field(default_factory=list)
    answers: list[Any] = field(default_factory=list)
    hung: bool = False

    @property
    def event_ids(self) -> list[str]:
        return [answer["event_id"] for answer in self.answers if isinstance(answer, dict) and "event_id" in answer]


async def carry_out(attack: Attack, *, port: int) -> Exchange:
    exchange = Exchange(attack)
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        async with asyncio.timeout(DEADLINE_S):
            await _exchange(exchange, reader=reader, writer=writer)
    except TimeoutError:
        exchange.hung = True
    except (ConnectionError, asyncio.IncompleteReadError):
        pass  # It was ended by the receiver, which is its right.
    finally:
        _reset(writer)
    return exchange


async def _exchange(exchange: Exchange, *, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        writer.write(exchange.attack.data)
        await writer.drain()
    except ConnectionError:
        pass  # An early answer may have come before all was sent.
    if exchange.attack.ends == "leave":
        return
    is_last = await _answer(exchange, reader=reader)
    with suppress(TimeoutError):
        while not reader.at_eof():
            async with asyncio.timeout(LINGER_S if exchange.attack.ends == "answer" and not is_last else DEADLINE_S):
                is_last = await _answer(exchange, reader=reader)


async def _answer(exchange: Exchange, *, reader: asyncio.StreamReader) -> bool:
    """Reads one answer; true when the receiver says that it is the last one here."""
    head = await reader.readuntil(b"\r\n\r\n")
    first, *lines = head.decode("latin-1").split("\r\n")
    headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
    status = int(first.split()[1])
    if status < 200:
        return False
    is_headless = exchange.attack.data.startswith(b"HEAD ")
    body = b"" if is_headless else await reader.readexactly(int(headers.get("content-length", 0)))
    exchange.statuses.append(status)
    # By its type: what a handshake echoes may look like anything.
    exchange.answers.append(json.loads(body) if body and headers.get("content-type") == "application/json" else None)
    return headers.get("connection", "").lower() == "close"


def _reset(writer: asyncio.StreamWriter) -> None:
    """Ends it with a reset: thousands of connections that wait in TIME_WAIT would use up the machine's ports."""
    connection: socket.socket | None = writer.get_extra_info("socket")
    if connection is not None and connection.fileno() >= 0:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    writer.transport.abort()
