"""Owns looking into a compressed body: what it says is read to describe the event, and what is stored stays as it was sent. Pure.

A few kilobytes can stand for gigabytes, so the output is bounded while it is made: by the cap of the source, and by a ratio that no
honest body reaches. One layer only.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator

from schemas.errors import BodyTooLarge, MalformedRequest

GZIP = "gzip"
HIGHEST_RATIO = 100
GZIP_WINDOW = 31  # zlib's way of saying: a gzip header, and no other.
MOST_MEMBERS = 1000
"""A gzip file may have several members, one after the other; those that have nothing in them count towards no other limit."""
PIECE_BYTES = 16 * 1024


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
    room, members, member = most + 1, 0, None
    for rest in _pieces(body):
        while rest and room > 0:
            if member is None:
                members, member = members + 1, zlib.decompressobj(GZIP_WINDOW)
            if members > MOST_MEMBERS:
                raise zlib.error(f"it has more than {MOST_MEMBERS} members")
            parts.append(member.decompress(rest, room))
            room -= len(parts[-1])
            rest, member = (member.unused_data, None) if member.eof else (b"", member)
    if room > 0 and (member is not None or not parts):
        raise zlib.error("it ends in the middle" if parts else "it is empty")
    return b"".join(parts)


def _pieces(body: bytes) -> Iterator[bytes]:
    """What follows a member is copied each time: not all of the body, or many small members would take the square of its length."""
    return (body[start : start + PIECE_BYTES] for start in range(0, len(body), PIECE_BYTES))


__all__ = ["GZIP", "HIGHEST_RATIO", "plain_body"]
