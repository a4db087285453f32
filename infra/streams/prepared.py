"""Owns events as `append.lua` takes them: a head that the script reads, and the values of their entries. Pure.

prepare     any event
Form        those of one source: what they have in common is worked out at start, since a receiver prepares one for every request.
            A test holds the two against each other
"""

from __future__ import annotations

import hashlib
import zlib
from collections.abc import Mapping
from typing import NamedTuple

import orjson

from infra.clock import uuid_bytes
from infra.streams.entries import EVENT_FIELDS, further_fields, values_of
from infra.streams.framing import framed
from infra.streams.keys import EVENT_STREAMS, Keys
from infra.streams.scripts import Argument
from infra.streams.seen import DIGEST_BYTES, MARKER_BYTES, SeenWindow, bucket_of, digest_of, marker_of
from schemas.event import VERSION, Priority, StreamEvent

_sha256, _blake2b, _crc32 = hashlib.sha256, hashlib.blake2b, zlib.crc32
STREAM_NUMBERS = {Priority(name): number for number, name in enumerate(EVENT_STREAMS, start=1)}
ID_BYTES = 16
BODY_AT = EVENT_FIELDS.index("payload")
USUALLY_MANY = 1 + len(EVENT_FIELDS)
"""Of the arguments of an event that has no further fields."""
A_VALUE = b"$%d\r\n%b\r\n"
END_OF_LENGTH = b"\r\n"
AFTER = END_OF_LENGTH + (len(EVENT_FIELDS) - BODY_AT - 1) * A_VALUE


class Prepared(NamedTuple):
    """An event on its way into a call."""

    shard: int
    window: SeenWindow
    stream: str
    size_bytes: int
    event_id: str
    id_bytes: bytes
    traceparent: str
    many: int
    """Of its arguments."""
    frames: tuple[bytes, bytes, bytes]
    """Its head, what `EVENT_FIELDS` are, and the names and values of further fields: what comes before the body, the body, the rest."""

    def is_meant(self, event_id: bytes) -> bool:
        """Whether that is its id: a reply to another call would show."""
        return event_id == self.id_bytes


def prepare(event: StreamEvent, *, keys: Keys, window: SeenWindow) -> Prepared:
    marker, further, values = marker_of(event), further_fields(event), values_of(event)
    id_bytes = uuid_bytes(event.id)
    stream = STREAM_NUMBERS[event.priority]
    head = b"%b%b%b%d%d%d" % (marker, id_bytes, digest_of(event), stream, len(further), bucket_of(marker))
    body = values[BODY_AT]
    assert isinstance(body, bytes)
    before = b"%b$%d" % (b"".join(map(framed, [head, *values[:BODY_AT]])), len(body))
    after = b"".join(map(framed, [*values[BODY_AT + 1 :], *further]))
    return Prepared(
        shard=keys.shard_of(event),
        window=window,
        stream=event.priority.value,
        size_bytes=len(event.payload),
        event_id=event.id,
        id_bytes=id_bytes,
        traceparent=event.traceparent,
        many=1 + len(values) + len(further),
        frames=(before + END_OF_LENGTH, body, END_OF_LENGTH + after),
    )


class Form:
    """What all whole webhooks of a source have in common."""

    __slots__ = ("_before", "_owner", "_priority", "_seed", "_shards", "_stream", "_window")

    def __init__(self, keys: Keys, *, tenant_id: str, source: str, priority: Priority, window: SeenWindow) -> None:
        self._priority, self._window = priority.value, window
        self._owner = f"{tenant_id}\0{source}\0".encode()
        self._seed, self._shards = zlib.crc32(self._owner), keys.shards
        self._stream = b"%d0" % STREAM_NUMBERS[priority]
        """And that nothing follows the values."""
        self._before = b"".join(
            [A_VALUE, _fixed(VERSION), A_VALUE, _fixed(tenant_id), _fixed(source), 4 * A_VALUE, _fixed(priority.value), A_VALUE, b"$%d\r\n"]
        )
        """For the lengths and values before the body, and its length."""

    def fill(
        self,
        event_id: str,
        *,
        event_type: str,
        repository: str,
        delivery_id: str,
        key: str,
        received_ms: int,
        payload: bytes,
        content_type: str,
        headers: Mapping[str, str],
        auth: bytes,
        traceparent: str,
    ) -> Prepared:
        """`auth` is what an `AuthContext` has, as `auth_json` writes it."""
        id_text, delivery, order, body = event_id.encode(), delivery_id.encode(), key.encode(), _sha256(payload)
        named, id_bytes = delivery or id_text, uuid_bytes(event_id)
        marker = _blake2b(self._owner + named, digest_size=MARKER_BYTES).digest()
        head = b"%b%b%b%b%d" % (marker, id_bytes, body.digest()[:DIGEST_BYTES], self._stream, bucket_of(marker))
        kind, subject, content, trace = event_type.encode(), repository.encode(), content_type.encode(), traceparent.encode()
        at, sha256, kept = b"%d" % received_ms, body.hexdigest().encode(), orjson.dumps(headers)
        before = self._before % (
            len(head), head, len(id_text), id_text, len(kind), kind, len(subject), subject, len(delivery), delivery, len(order), order,
            len(at), at, len(payload),
        )  # fmt: skip
        after = AFTER % (len(sha256), sha256, len(content), content, len(kept), kept, len(auth), auth, len(trace), trace)
        shard, frames = _crc32(order or named, self._seed) % self._shards, (before, payload, after)
        return Prepared(shard, self._window, self._priority, len(payload), event_id, id_bytes, traceparent, USUALLY_MANY, frames)


def _fixed(value: Argument) -> bytes:
    """One that is the same in all events of a source, in what the others are filled into."""
    return framed(value).replace(b"%", b"%%")
