"""Owns a TCP proxy that harms what passes through it, in toxiproxy's words: `limit_data`, `reset_peer`, `latency`, `timeout`.

Toxics apply to connections that are made after they were set; `heal` lets new ones pass unharmed. Only `hold`, which is
toxiproxy's `timeout`, is for all connections at once: they stay, and nothing passes in either direction until `heal`; with
`hold_replies` only what clients send does.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import struct
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

CHUNK_BYTES = 65536
TURNS = 10


@dataclass(frozen=True, slots=True)
class Toxics:
    """What is done to replies on their way from the server."""

    limit_data: int | None = None
    """Close the connection after so many bytes of replies, in the middle of a frame if need be."""
    reset_peer: int | None = None
    """The same, but with a RST instead of a FIN."""
    latency_ms: int = 0
    """Hold every chunk of replies back for so long."""

    @property
    def most_bytes(self) -> int | None:
        return self.reset_peer if self.reset_peer is not None else self.limit_data


@dataclass(slots=True)
class Proxy:
    """Between 127.0.0.1:`port` and 127.0.0.1:`upstream_port`."""

    upstream_port: int
    port: int = 0
    toxics: Toxics = field(default_factory=Toxics)
    replied_bytes: int = 0
    """What has been let through from the server to clients, over all connections."""
    _connections: set[asyncio.Future[None]] = field(default_factory=set)
    _joined: set[asyncio.Task[None]] = field(default_factory=set)
    """Who waits for each connection, and goes last."""
    _flowing: asyncio.Event = field(default_factory=asyncio.Event)
    _replying: asyncio.Event = field(default_factory=asyncio.Event)
    _is_ending: bool = False

    def harm(self, *, limit_data: int | None = None, reset_peer: int | None = None, latency_ms: int = 0) -> None:
        self.toxics = Toxics(limit_data, reset_peer, latency_ms)

    def hold(self) -> None:
        """From now on nothing passes, also of what is on its way."""
        self._flowing.clear()

    def hold_replies(self) -> None:
        """From now on what clients send arrives, and nothing comes back."""
        self._replying.clear()

    def heal(self) -> None:
        self.toxics = Toxics()
        self._flowing.set()
        self._replying.set()

    def lead_to(self, upstream_port: int) -> None:
        """From now on new connections go there, and those that there are end."""
        self.upstream_port = upstream_port
        for connection in self._connections:
            connection.cancel()

    @asynccontextmanager
    async def running(self) -> AsyncIterator[Proxy]:
        listening = await asyncio.start_server(self._join, "127.0.0.1", 0)
        self.port = listening.sockets[0].getsockname()[1]
        self._flowing.set()
        self._replying.set()
        try:
            yield self
        finally:
            # What was accepted a moment ago takes some turns of the loop to become one of ours, and asyncio forgets it if nobody listens.
            for _ in range(TURNS):
                await asyncio.sleep(0)
            listening.close()
            self._is_ending = True
            # One more may have been accepted in this very turn, and is ended by `_join`: whoever is cut off dials again and again.
            for _ in range(TURNS):
                await asyncio.sleep(0)
            for connection in self._connections:
                connection.cancel()
            await asyncio.gather(*self._joined, return_exceptions=True)

    async def _join(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self._is_ending:
            writer.close()
            return
        # In a task of its own: asyncio complains when the one that it made for a connection is cancelled.
        connection, joined = asyncio.ensure_future(self._connect(reader, writer, toxics=self.toxics)), asyncio.current_task()
        assert joined is not None
        self._connections.add(connection)
        self._joined.add(joined)
        with contextlib.suppress(asyncio.CancelledError):
            await connection
        self._connections.discard(connection)
        # One that is cancelled before it has begun has closed nothing.
        writer.close()
        with contextlib.suppress(OSError):
            await writer.wait_closed()
        self._joined.discard(joined)

    async def _connect(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, toxics: Toxics) -> None:
        sides, halves = [writer], list[asyncio.Future[None]]()
        try:
            from_server, to_server = await asyncio.open_connection("127.0.0.1", self.upstream_port)
            sides.append(to_server)
            for side in sides:
                # Without it the kernel holds small frames back for 40 ms, which would look like a slow server.
                side.get_extra_info("socket").setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            halves = [
                asyncio.ensure_future(self._pass(reader, to_server)),
                asyncio.ensure_future(self._harm(from_server, writer, toxics=toxics)),
            ]
            await asyncio.wait(halves, return_when=asyncio.FIRST_COMPLETED)
        except ConnectionRefusedError:
            pass  # Nobody listens there any more, so the client's connection ends too.
        finally:
            # All of it before anything is waited for: whoever waits may be cancelled once more.
            for half in halves:
                half.cancel()
            for side in sides:
                side.close()
            await asyncio.gather(*halves, *(side.wait_closed() for side in sides), return_exceptions=True)

    async def _harm(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, toxics: Toxics) -> None:
        left = toxics.most_bytes
        while data := await reader.read(CHUNK_BYTES):
            await asyncio.sleep(toxics.latency_ms / 1000)
            await self._flowing.wait()
            await self._replying.wait()
            data = data if left is None else data[:left]
            writer.write(data)
            await writer.drain()
            self.replied_bytes += len(data)
            if left is not None:
                left -= len(data)
                if left == 0:
                    break
        if toxics.reset_peer is not None:
            # Lingering for no time at all: closing then sends RST, not FIN.
            writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))

    async def _pass(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):  # the client may hang up at any time
            while data := await reader.read(CHUNK_BYTES):
                await self._flowing.wait()
                writer.write(data)
                await writer.drain()
