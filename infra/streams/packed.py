"""Owns events as bytes, for whoever keeps them outside the log for a while: the fields of their entries, framed as on the wire. Pure."""

from __future__ import annotations

from collections.abc import Sequence

import hiredis

from infra.streams.entries import decode_flat, encode
from schemas.errors import MalformedEntry
from schemas.event import StreamEvent


def pack(events: Sequence[StreamEvent]) -> bytes:
    return b"".join(hiredis.pack_command(tuple(encode(event))) for event in events)  # type: ignore[arg-type]  # its stub allows one argument only


def unpack(packed: bytes) -> list[StreamEvent]:
    """What `pack` was given; raises MalformedEntry, UnknownVersion for events of another release."""
    reader, found = hiredis.Reader(), list[StreamEvent]()
    reader.feed(packed)
    try:
        while (flat := reader.gets()) is not False:
            found.append(decode_flat(flat))
    except (hiredis.ProtocolError, TypeError, AttributeError) as error:
        raise MalformedEntry(f"the bytes are no packed events: {error}", fields={}) from error
    return found
