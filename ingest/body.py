"""Owns reading one request's body: framing we trust, never more bytes than the cap, never longer than the deadline."""

from __future__ import annotations

import asyncio
from collections.abc import Collection

from starlette.types import Receive

from ingest.headers import Headers
from ingest.limits import Held
from schemas.errors import BodyTooLarge, MalformedRequest, TooSlow, UnsupportedEncoding


def refuse_framing(headers: Headers, *, max_bytes: int, encodings: Collection[str] = ()) -> None:
    """Refuses, before a byte of the body is read, what cannot be stored as it was sent."""
    length = headers.one("content-length")
    if length and "transfer-encoding" in headers.values:
        raise MalformedRequest("the request has both Content-Length and Transfer-Encoding, so its end is ambiguous")
    if "upgrade" in headers.values and "upgrade" in headers.values.get("connection", "").lower():
        # The HTTP parser stops at such a head and would hand us an empty body.
        raise MalformedRequest("this receiver speaks HTTP/1.1 and upgrades to nothing else; send without Upgrade")
    encoding = headers.one("content-encoding").lower()
    if encoding not in ("", "identity") and encoding not in encodings:
        raise UnsupportedEncoding("the body is compressed in a way that this source is not set up for; send it plain")
    if length and not (length.isascii() and length.isdigit()):
        raise MalformedRequest("Content-Length is no number")
    if length and (len(length) > 12 or int(length) > max_bytes):
        raise _too_large(max_bytes)


async def read_body(receive: Receive, *, max_bytes: int, timeout_ms: int, held: Held, is_here: bool = False) -> bytes:
    """The whole body; raises BodyTooLarge, TooSlow, Overloaded, or MalformedRequest when the sender went away in the middle.

    One that `is_here` already is not waited for, so no deadline is set, which would cost as much as verifying the signature.
    """
    if is_here:
        return await _read_all(receive, max_bytes=max_bytes, held=held)
    try:
        async with asyncio.timeout(timeout_ms / 1000):
            return await _read_all(receive, max_bytes=max_bytes, held=held)
    except TimeoutError as error:
        raise TooSlow(f"the body did not arrive within {timeout_ms} ms") from error


async def _read_all(receive: Receive, *, max_bytes: int, held: Held) -> bytes:
    chunks: list[bytes] = []
    total = 0
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise MalformedRequest("the sender disconnected before the end of the body; nothing was stored")
        chunk = message.get("body", b"")
        total += len(chunk)
        if total > max_bytes:
            raise _too_large(max_bytes)
        held.grow(len(chunk))
        chunks.append(chunk)
        if not message.get("more_body", False):
            return b"".join(chunks)


def _too_large(max_bytes: int) -> BodyTooLarge:
    return BodyTooLarge(f"the body is larger than the {max_bytes} bytes that this source may send")
