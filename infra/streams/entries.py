"""Owns the wire form of an event: the fields of a stream entry. Pure; raises MalformedEntry and UnknownVersion.

Always the same fields in the same order: a stream stores repeated field names once, so they cost nothing. Few events have more
of them (`OPTIONAL_FIELDS`), and releases that do not know these pass over them.
`incarnation`, `sequence`, `recheck` and `conflict` are added by the log, `retry_count` by a retry.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping, Sequence
from typing import Any, NoReturn

import orjson

from schemas.errors import MalformedEntry, UnknownVersion
from schemas.event import (
    FLAG_PATTERN,
    ID_PATTERN,
    NAME_PATTERN,
    SHA256_PATTERN,
    VERSION,
    AuthContext,
    Part,
    Priority,
    StreamEvent,
    assembled,
    from_epoch_ms,
    to_epoch_ms,
)

Fields = dict[bytes, bytes]

EVENT_FIELDS = (
    "version", "id", "tenant_id", "source", "event_type", "repository", "delivery_id", "key", "priority",
    "timestamp", "payload", "body_sha256", "content_type", "headers", "auth_context", "traceparent",
)  # fmt: skip
OPTIONAL_FIELDS = ("part", "flags")
"""JSON, after the others; missing where there is nothing to say."""
NAMES = [name.encode() for name in EVENT_FIELDS]
READABLE_VERSIONS = frozenset({VERSION})
"""A release that writes a new version reads the one before it too: both are on the log while workers are replaced."""
KEPT_FIELDS = (b"version", b"id", b"tenant_id", b"source")
"""Called so in all versions, so that any release can tell whose event it holds."""
LARGEST_BODY_BYTES = 128 * 1024 * 1024
"""More than that no source may send."""
LOG_FIELDS = ("incarnation", "sequence", "recheck", "conflict")
is_id, _is_name, _is_sha256 = (re.compile(pattern.encode()).fullmatch for pattern in (ID_PATTERN, NAME_PATTERN, SHA256_PATTERN))
_READABLE = frozenset(str(version).encode() for version in READABLE_VERSIONS)
END = 2 * len(NAMES)
_EVERY_FIELD = [part for name in EVENT_FIELDS for part in (name, "")]
_TEXTS = {str}
_auth_context = AuthContext.__pydantic_validator__.validate_json
_part = Part.__pydantic_validator__.validate_json
_is_flag = re.compile(FLAG_PATTERN).fullmatch
_LOG_NAMES = [name.encode() for name in LOG_FIELDS]
_NOTHING: Fields = {}
NO_EVENT = (KeyError, ValueError, OverflowError, OSError)
"""What reading an entry raises that is none; the last two for a timestamp that no calendar has."""
PRIORITIES = {priority.value.encode(): priority for priority in Priority}


class Entry:
    """One entry of a stream, not yet decoded: as the server sends it, or by its fields' names. Not to be changed."""

    __slots__ = ("_fields", "_size_bytes", "flat", "id")

    def __init__(self, id: str, fields: Fields | None = None, *, flat: Sequence[bytes] = ()) -> None:
        self.id = id
        self.flat = flat
        """Field, value, field, value, ...; empty where only the fields are known."""
        self._fields = fields
        self._size_bytes = -1

    @property
    def fields(self) -> Fields:
        if self._fields is None:  # Of most entries nobody asks for a field by its name.
            self._fields = as_fields(self.flat)
        return self._fields

    @property
    def size_bytes(self) -> int:
        if self._size_bytes < 0:
            self._size_bytes = sum(map(len, self.flat or [part for pair in self.fields.items() for part in pair]))
        return self._size_bytes


def encode(event: StreamEvent) -> list[str | bytes | int]:
    """Field, value, field, value, ... as XADD takes them."""
    encoded: list[str | bytes | int] = [*_EVERY_FIELD]
    encoded[1::2] = values_of(event)
    return encoded + further_fields(event)


def values_of(event: StreamEvent) -> list[str | bytes | int]:
    """What `EVENT_FIELDS` are, in their order."""
    return [
        event.version, event.id, event.tenant_id, event.source, event.event_type, event.repository, event.delivery_id,
        event.key, event.priority, to_epoch_ms(event.timestamp), event.payload, event.body_sha256,
        event.content_type, orjson.dumps(event.headers), auth_json(event.auth_context.__dict__), event.traceparent,
    ]  # fmt: skip


def further_fields(event: StreamEvent) -> list[str | bytes | int]:
    """Field, value, ... of the optional ones that it has."""
    further: list[str | bytes | int] = []
    if event.part is not None:
        further += ["part", event.part.model_dump_json()]
    if event.flags:
        further += ["flags", orjson.dumps(event.flags)]
    return further


def auth_json(auth: Mapping[str, object]) -> bytes:
    """What an `AuthContext` has, as the model writes it, which takes twice as long; a test holds the two against each other."""
    return orjson.dumps(auth, option=orjson.OPT_UTC_Z)


def decode(fields: Fields) -> StreamEvent:
    """The event that `encode` wrote; raises UnknownVersion for one of another release, MalformedEntry for anything else."""
    try:
        if int(fields[b"version"]) not in READABLE_VERSIONS:
            raise _unreadable(fields)
        return _event([fields[name] for name in NAMES], more=fields)
    except NO_EVENT as error:
        raise MalformedEntry(f"the entry is no StreamEvent: {type(error).__name__}: {error}", fields=fields) from error


def decode_flat(flat: Sequence[bytes]) -> StreamEvent:
    """The same of an entry as the server sends it. Nearly all have their fields where `encode` puts them, and need not be looked for."""
    if not is_in_place(flat):
        return decode(as_fields(flat))
    try:
        return _event(flat[1:END:2], more=others_of(flat))
    except NO_EVENT:
        return decode(as_fields(flat))


def is_in_place(flat: Sequence[bytes]) -> bool:
    """Whether all of an event's fields stand where `encode` puts them, in a version that this release reads."""
    return flat[:END:2] == NAMES and flat[1] in _READABLE


def others_of(flat: Sequence[bytes]) -> Fields:
    """What an entry that is in place has besides, if it is more than the log adds to all. Raises ValueError."""
    return _NOTHING if flat[END::2] == _LOG_NAMES else as_fields(flat[END:])


def as_fields(flat: Sequence[bytes]) -> Fields:
    """Field, value, field, value, ... as the server sends them."""
    parts = iter(flat)
    return dict(zip(parts, parts, strict=True))


def _event(values: Sequence[bytes], *, more: Fields) -> StreamEvent:
    return assembled(checked_values(values, more=more))


def checked_values(values: Sequence[bytes], *, more: Fields) -> dict[str, Any]:
    """What an event has: from its values in their order, and from what else its entry has. Raises NO_EVENT.

    Checks what the model would check, one value after the other: a worker does this for very many deliveries, and the model's own
    validator would be its largest cost. A test holds the two against each other."""
    (
        version, event_id, tenant_id, source, event_type, repository, delivery_id, key, priority,
        timestamp, payload, body_sha256, content_type, headers, auth_context, traceparent,
    ) = values  # fmt: skip
    return {
        "version": int(version),
        "id": event_id.decode() if is_id(event_id) else _refused(event_id),
        "tenant_id": name_of(tenant_id),
        "source": name_of(source),
        "event_type": text_of(event_type),
        "repository": repository.decode(),
        "delivery_id": delivery_id.decode(),
        "key": key.decode(),
        "priority": PRIORITIES[priority],
        "timestamp": from_epoch_ms(int(timestamp)),
        "payload": payload,
        "body_sha256": body_sha256.decode() if _is_sha256(body_sha256) else _refused(body_sha256),
        "content_type": text_of(content_type),
        "headers": _headers(headers),
        "auth_context": _auth_context(auth_context),
        "traceparent": traceparent.decode(),
        "part": _part(more[b"part"]) if b"part" in more else None,
        "flags": read_flags(more[b"flags"]) if b"flags" in more else (),
        "retry_count": int(more[b"retry_count"]) if b"retry_count" in more else 0,
    }


def _unreadable(fields: Fields) -> MalformedEntry:
    """Whatever else an entry of another version holds: a number as its version, and whose it is."""
    version, readable = fields[b"version"], ", ".join(map(str, sorted(READABLE_VERSIONS)))
    said = f"the entry has version {version!r}, and this release reads {readable}"
    is_event = version.isdigit() and version[:1] != b"0" and all(fields.get(name) for name in KEPT_FIELDS)
    return UnknownVersion(said, fields=fields) if is_event else MalformedEntry(said, fields=fields)


def _refused(raw: bytes) -> NoReturn:
    raise ValueError(f"{raw[:100]!r} is no such value")


def read_flags(raw: bytes) -> tuple[str, ...]:
    """Raises ValueError for what is none."""
    flags = orjson.loads(raw)
    if type(flags) is not list or not all(type(flag) is str and _is_flag(flag) for flag in flags):
        raise ValueError("its flags are no list of them")
    return tuple(flags)


# Few of them come again and again; senders choose types, so what is remembered is bounded.
@functools.lru_cache(maxsize=4096)
def name_of(raw: bytes) -> str:
    return raw.decode() if _is_name(raw) else _refused(raw)


@functools.lru_cache(maxsize=4096)
def text_of(raw: bytes) -> str:
    return raw.decode()


def _headers(raw: bytes) -> dict[str, str]:
    headers = orjson.loads(raw)
    if type(headers) is not dict or not set(map(type, headers.values())) <= _TEXTS:
        raise ValueError("its headers are no texts by their names")
    return headers
