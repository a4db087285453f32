from __future__ import annotations

import asyncio
import contextlib
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from infra.running.embedded import EmbeddedServer
from infra.settings import LogSettings
from infra.streams.connection import log_url, open_blocking, open_pipeline, translated
from schemas.errors import StreamUnavailable

CERTIFICATE = Path(__file__).parent / "certificates" / "localhost.pem"
"""Signed by itself, with its key; valid for localhost and 127.0.0.1."""


@asynccontextmanager
async def tls_in_front_of(server: EmbeddedServer) -> AsyncIterator[int]:
    """The port of a TLS terminator, as stands before a managed server: the embedded one is built without TLS."""
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(CERTIFICATE)

    async def pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):  # either side may hang up at any time
            while data := await reader.read(65536):
                writer.write(data)
        writer.close()
        with contextlib.suppress(OSError):
            await writer.wait_closed()

    async def join(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        from_log, to_log = await asyncio.open_connection("127.0.0.1", server.port)
        both = asyncio.gather(pump(reader, to_log), pump(from_log, writer))
        joined.append(both)
        await both

    joined: list[asyncio.Future[tuple[None, None]]] = []
    async with await asyncio.start_server(join, "127.0.0.1", 0, ssl=context) as listening:
        yield listening.sockets[0].getsockname()[1]
        await asyncio.wait_for(asyncio.gather(*joined), 10)


def ping(log: LogSettings, *, home: Path) -> bool:
    with open_blocking(log, home=home) as client, translated():
        return bool(client.ping())


@pytest.mark.parametrize("options", [f"ssl_ca_certs={CERTIFICATE}", "ssl_cert_reqs=none"])
async def test_both_clients_understand_what_the_address_says_about_tls(log_server: EmbeddedServer, home: Path, options: str) -> None:
    async with tls_in_front_of(log_server) as port:
        log = LogSettings(url=f"rediss://:a-test-password@localhost:{port}/0?{options}", timeout_ms=5000)
        pipeline = open_pipeline(log, home=home)

        assert await pipeline.call("PING") == b"PONG"
        assert await asyncio.to_thread(ping, log, home=home)
        await pipeline.close()


async def test_both_clients_refuse_a_certificate_that_nobody_vouches_for(log_server: EmbeddedServer, home: Path) -> None:
    async with tls_in_front_of(log_server) as port:
        log = LogSettings(url=f"rediss://:a-test-password@localhost:{port}/0", timeout_ms=5000)
        pipeline = open_pipeline(log, home=home)

        with pytest.raises(StreamUnavailable, match="CERTIFICATE_VERIFY_FAILED"):
            await pipeline.call("PING")
        with pytest.raises(StreamUnavailable, match="CERTIFICATE_VERIFY_FAILED"):
            await asyncio.to_thread(ping, log, home=home)


def test_the_embedded_log_is_unavailable_until_it_runs(home: Path) -> None:
    with pytest.raises(StreamUnavailable, match="the embedded log is not running: start it with `hooklake up`"):
        log_url(LogSettings(), home=home)
