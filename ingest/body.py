"""Owns reading one request's body: framing we trust, never more bytes than the cap, never longer than the deadline."""

from __future__ import annotations

import asyncio
from collections.abc import Collection

from starlette.types import Message, Receive

from infra.running.patience import LOOK_AGAIN_S
from infra.running.pulse import Pulse
from ingest.headers import Headers
from ingest.limits import Held
from schemas.errors import BodyTooLarge, MalformedRequest, TooSlow, UnsupportedEncoding


def refuse_framing(headers: Headers, *, max_bytes: int) -> None:
    """Refuses, before a byte of the body is read, what cannot be stored as it was sent."""
    length = headers.one("content-length")
    if length and "transfer-encoding" in headers.values:
        raise MalformedRequest("the request has both Content-Length and Transfer-Encoding, so its end is ambiguous")
    if "upgrade" in headers.values and "upgrade" in headers.values.get("connection", "").lower():
        # The HTTP parser stops at such a head and would hand us an empty body.
        raise MalformedRequest("this receiver speaks HTTP/1.1 and upgrades to nothing else; send without Upgrade")
    if length and not (length.isascii() and length.isdigit()):
        raise MalformedRequest("Content-Length is no number")
    if length and (len(length) > 12 or int(length) > max_bytes):
        raise _too_large(max_bytes)


def refuse_encoding(headers: Headers, *, allowed: Collection[str]) -> None:
    """Of a body that is here: what its source may not send today is kept aside, and let in when it may."""
    encoding = headers.one("content-encoding").lower()
    if encoding not in ("", "identity") and encoding not in allowed:
        raise UnsupportedEncoding("the body is compressed in a way that this source is not set up for; send it plain")


def in_time(receive: Receive, *, timeout_ms: int, pulse: Pulse) -> Receive:
    """What is received until so long from now; then it raises TooSlow, except of a sender who may be late because we were.

    For a body that is here already it would cost as much as verifying the signature.
    """
    now_s = asyncio.get_running_loop().time
    deadline_s, has_looked_again = now_s() + timeout_ms / 1000, False

    async def receive_in_time() -> Message:
        nonlocal deadline_s, has_looked_again
        while True:
            try:
                async with asyncio.timeout_at(deadline_s):
                    return await receive()
            except TimeoutError as error:
                # A process that was held up finds its timers due before it has read what came meanwhile.
                left_s = pulse.forgives_for_s(now_s()) or (0.0 if has_looked_again else LOOK_AGAIN_S)
                if not left_s:
                    raise TooSlow(f"the body did not arrive within {timeout_ms} ms") from error
                deadline_s, has_looked_again = now_s() + left_s, True

    return receive_in_time


async def read_body(receive: Receive, *, max_bytes: int, held: Held) -> bytes:
    """The whole body, with which its request is in work; raises BodyTooLarge, Overloaded, or MalformedRequest of who went away before."""
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
        is_last = not message.get("more_body", False)
        if is_last:
            # Before it grows: one that comes at once, if only behind its head, never holds anything that others on their way would miss.
            held.arrived()
        held.grow(len(chunk))
        chunks.append(chunk)
        if is_last:
            return b"".join(chunks)


def _too_large(max_bytes: int) -> BodyTooLarge:
    return BodyTooLarge(f"the body is larger than the {max_bytes} bytes that this source may send")
