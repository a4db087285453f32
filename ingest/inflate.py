"""Owns looking into a compressed body: what it says is read to describe the event, and what is stored stays as it was sent. Pure.

A few kilobytes can stand for gigabytes, so the output is bounded while it is made: by the cap of the source, and by a ratio that no
honest body reaches. One layer only.
"""

from __future__ import annotations

import zlib

from schemas.errors import BodyTooLarge, MalformedRequest

GZIP = "gzip"
HIGHEST_RATIO = 100
GZIP_WINDOW = 31  # zlib's way of saying: a gzip header, and no other.


def plain_body(body: bytes, *, encoding: str, max_bytes: int) -> bytes:
    """The body without its content encoding; raises BodyTooLarge, or MalformedRequest when it is not what its header says."""
    if encoding.lower() != GZIP:
        return body
    most = min(max_bytes, HIGHEST_RATIO * len(body))
    try:
        plain = _gunzip(body, most=most)
    except zlib.error as error:
        raise MalformedRequest(f"Content-Encoding is gzip, and the body is none ({error})") from error
    if len(plain) > most:
        raise BodyTooLarge(f"the body is larger than {most} bytes when it is decompressed, which is more than this source may send")
    return plain


def _gunzip(body: bytes, *, most: int) -> bytes:
    """At most one byte more than `most`; raises zlib.error for what is no gzip, or ends in the middle."""
    parts: list[bytes] = []
    room, rest = most + 1, body
    while rest and room > 0:  # A gzip file may have several members, one after the other.
        member = zlib.decompressobj(GZIP_WINDOW)
        parts.append(member.decompress(rest, room))
        room -= len(parts[-1])
        if not member.eof and room > 0:
            raise zlib.error("it ends in the middle")
        rest = member.unused_data
    if not parts:
        raise zlib.error("it is empty")
    return b"".join(parts)


__all__ = ["GZIP", "HIGHEST_RATIO", "plain_body"]
