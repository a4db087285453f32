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
from infra.streams.entries import further_fields, values_of
from infra.streams.keys import EVENT_STREAMS, Keys
from infra.streams.scripts import Argument
from infra.streams.seen import DIGEST_BYTES, MARKER_BYTES, SeenWindow, bucket_of, digest_of, marker_of
from schemas.event import VERSION, Priority, StreamEvent

_sha256, _blake2b, _crc32 = hashlib.sha256, hashlib.blake2b, zlib.crc32
STREAM_NUMBERS = {Priority(name): number for number, name in enumerate(EVENT_STREAMS, start=1)}
ID_BYTES = 16


class Prepared(NamedTuple):
    """An event on its way into a call."""

    shard: int
    window: SeenWindow
    stream: str
    size_bytes: int
    args: list[Argument]
    """Its head, what `EVENT_FIELDS` are, and the names and values of further fields."""

    @property
    def event_id(self) -> str:
        return self.args[2]  # type: ignore[return-value]  # A text, in either way of preparing.

    @property
    def traceparent(self) -> str:
        return self.args[16]  # type: ignore[return-value]  # Likewise.

    def is_meant(self, event_id: bytes) -> bool:
        """Whether that is its id: a reply to another call would show."""
        head: bytes = self.args[0]  # type: ignore[assignment]
        return head[MARKER_BYTES : MARKER_BYTES + ID_BYTES] == event_id


def prepare(event: StreamEvent, *, keys: Keys, window: SeenWindow) -> Prepared:
    marker, further = marker_of(event), further_fields(event)
    named = marker, uuid_bytes(event.id), digest_of(event)
    head = b"%b%b%b%d%d%d" % (*named, STREAM_NUMBERS[event.priority], len(further), bucket_of(marker))
    return Prepared(keys.shard_of(event), window, event.priority.value, len(event.payload), [head, *values_of(event), *further])


class Form:
    """What all whole webhooks of a source have in common."""

    __slots__ = ("_owner", "_priority", "_seed", "_shards", "_source", "_stream", "_tenant_id", "_window")

    def __init__(self, keys: Keys, *, tenant_id: str, source: str, priority: Priority, window: SeenWindow) -> None:
        self._tenant_id, self._source, self._priority, self._window = tenant_id, source, priority.value, window
        self._owner = f"{tenant_id}\0{source}\0".encode()
        self._seed, self._shards = zlib.crc32(self._owner), keys.shards
        self._stream = b"%d0" % STREAM_NUMBERS[priority]
        """And that nothing follows the values."""

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
        named, body = (delivery_id or event_id).encode(), _sha256(payload)
        marker = _blake2b(self._owner + named, digest_size=MARKER_BYTES).digest()
        head = b"%b%b%b%b%d" % (marker, uuid_bytes(event_id), body.digest()[:DIGEST_BYTES], self._stream, bucket_of(marker))
        shard = _crc32(key.encode() or named, self._seed) % self._shards
        args: list[Argument] = [
            head, VERSION, event_id, self._tenant_id, self._source, event_type, repository, delivery_id, key, self._priority, received_ms,
            payload, body.hexdigest(), content_type, orjson.dumps(headers), auth, traceparent,
        ]  # fmt: skip
        return Prepared(shard, self._window, self._priority, len(payload), args)
