from __future__ import annotations

import asyncio
import gc
import socket
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from infra.running.embedded import EmbeddedServer
from tests.faults.proxy import Proxy

REPLY = b"0123456789" * 1000


@asynccontextmanager
async def replying() -> AsyncIterator[Proxy]:
    """A proxy before a server that answers every connection with the same bytes and waits for its end."""

    async def reply(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            writer.write(REPLY)
            await writer.drain()
            await reader.read()
        finally:
            writer.close()

    async with await asyncio.start_server(reply, "127.0.0.1", 0) as server, Proxy(server.sockets[0].getsockname()[1]).running() as proxy:
        yield proxy


async def read_all(proxy: Proxy, *, at_most: int = -1) -> bytes:
    reader, writer = await asyncio.open_connection("127.0.0.1", proxy.port)
    try:
        async with asyncio.timeout(10):
            return await (reader.read() if at_most < 0 else reader.readexactly(at_most))
    finally:
        writer.close()


async def test_an_unharmed_reply_passes_whole() -> None:
    async with replying() as proxy:
        assert await read_all(proxy, at_most=len(REPLY)) == REPLY


@pytest.mark.parametrize("limit", [0, 1, 4321])
async def test_limit_data_lets_so_many_bytes_through_and_closes(limit: int) -> None:
    async with replying() as proxy:
        proxy.harm(limit_data=limit)
        assert await read_all(proxy) == REPLY[:limit]

        proxy.heal()
        assert await read_all(proxy, at_most=len(REPLY)) == REPLY


async def test_reset_peer_ends_with_a_reset() -> None:
    async with replying() as proxy:
        proxy.harm(reset_peer=5)

        with pytest.raises(ConnectionResetError):
            await read_all(proxy)


async def test_latency_holds_replies_back() -> None:
    async with replying() as proxy:
        proxy.harm(latency_ms=200)
        began = time.monotonic()

        await read_all(proxy, at_most=len(REPLY))

        assert time.monotonic() - began >= 0.2


async def test_hold_lets_nothing_pass_until_it_is_healed() -> None:
    async with replying() as proxy:
        proxy.hold()
        reading = asyncio.ensure_future(read_all(proxy, at_most=len(REPLY)))
        await asyncio.wait([reading], timeout=0.1)
        assert not reading.done()

        proxy.heal()
        assert await reading == REPLY


async def test_connections_end_when_the_proxy_leads_elsewhere() -> None:
    async with replying() as proxy, replying() as other:
        reader, writer = await asyncio.open_connection("127.0.0.1", proxy.port)
        await reader.readexactly(len(REPLY))

        proxy.lead_to(other.upstream_port)

        assert await reader.read() == b""
        writer.close()
        assert await read_all(proxy, at_most=len(REPLY)) == REPLY


@pytest.mark.parametrize("turns", range(8))
def test_a_connection_of_the_last_moment_ends_with_the_proxy(log_server: EmbeddedServer, turns: int) -> None:
    """In a loop of its own, which is closed as soon as the proxy is; what is left open then fails the test as a warning."""

    async def connect() -> None:
        with socket.socket() as client:
            async with Proxy(log_server.port).running() as proxy:
                client.connect(("127.0.0.1", proxy.port))
                for _ in range(turns):  # of the loop: the connection is accepted, then joined, then connected
                    await asyncio.sleep(0)

    asyncio.run(connect())
    gc.collect()
