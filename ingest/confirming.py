"""Owns the one call that a receiver makes by itself: confirming a subscription. Over TLS, bounded in time, following no redirect.

Streams of the standard library and no HTTP client: of the answer only its status is read, and a call that is given up in the middle of
its TLS handshake leaves no socket behind.
"""

from __future__ import annotations

import asyncio
import re
import ssl

WITHIN_S = 10.0
PORT = 443
_status_in = re.compile(rb"HTTP/1\.[01] ([0-9]{3})[ \r]").match


async def confirm(host: str, target: str, *, at: tuple[str, int] | None = None, tls: ssl.SSLContext | None = None) -> str:
    """Why it was not confirmed; empty when it was. Connects to the host, or to whoever must prove to be the host `at` an address."""
    request = f"GET {target} HTTP/1.1\r\nHost: {host}\r\nUser-Agent: hooklake\r\nConnection: close\r\n\r\n".encode("ascii")
    try:
        async with asyncio.timeout(WITHIN_S):
            line = await _first_line(host, request, at=at or (host, PORT), tls=tls or ssl.create_default_context())
    except (OSError, TimeoutError, ValueError) as error:  # a name that cannot be resolved, a wrong certificate, an endless line
        return str(error) or type(error).__name__
    found = _status_in(line)
    if found is None:
        return "the answer was no HTTP"
    return "" if found[1] == b"200" else f"the answer was {found[1].decode()}"


async def _first_line(host: str, request: bytes, *, at: tuple[str, int], tls: ssl.SSLContext) -> bytes:
    reader, writer = await asyncio.open_connection(*at, ssl=tls, server_hostname=host)
    try:
        writer.write(request)
        return await reader.readline()
    finally:
        writer.close()
