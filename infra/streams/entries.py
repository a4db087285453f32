"""Owns the wire form of an event: the fields of a stream entry. Pure; raises MalformedEntry and UnknownVersion.

Always the same fields in the same order: a stream stores repeated field names once, so they cost nothing.
`incarnation`, `sequence`, `recheck` and `conflict` are added by the log, `retry_count` by a retry.
"""

from __future__ import annotations

import functools
import re
from dataclasses import dataclass
from typing import NoReturn

import orjson

from schemas.errors import MalformedEntry, UnknownVersion
from schemas.event import (
    ID_PATTERN,
    NAME_PATTERN,
    SHA256_PATTERN,
    VERSION,
    AuthContext,
    Priority,
    StreamEvent,
    assembled,
    from_epoch_ms,
    to_epoch_ms,
)

EVENT_FIELDS = (
    "version", "id", "tenant_id", "source", "event_type", "repository", "delivery_id", "key", "priority",
    "timestamp", "payload", "body_sha256", "content_type", "headers", "auth_context", "traceparent",
)  # fmt: skip
READABLE_VERSIONS = frozenset({VERSION})
"""A release that writes a new version reads the one before it too: both are on the log while workers are replaced."""
KEPT_FIELDS = (b"version", b"id", b"tenant_id", b"source")
"""Called so in all versions, so that any release can tell whose event it holds."""
LOG_FIELDS = ("incarnation", "sequence", "recheck", "conflict")
_is_id, _is_name, _is_sha256 = (re.compile(pattern.encode()).fullmatch for pattern in (ID_PATTERN, NAME_PATTERN, SHA256_PATTERN))
_TEXTS = {str}
PRIORITIES = {priority.value.encode(): priority for priority in Priority}

Fields = dict[bytes, bytes]


@dataclass(frozen=True, slots=True)
class Entry:
    """One entry of a stream, not yet decoded."""

    id: str
    fields: Fields

    @property
    def size_bytes(self) -> int:
        return sum(len(name) + len(value) for name, value in self.fields.items())


def encode(event: StreamEvent) -> list[str | bytes | int]:
    """Field, value, field, value, ... as XADD takes them."""
    auth = event.auth_context.model_dump(mode="json")
    values: tuple[str | bytes | int, ...] = (
        event.version, event.id, event.tenant_id, event.source, event.event_type, event.repository, event.delivery_id,
        event.key, event.priority.value, to_epoch_ms(event.timestamp), event.payload, event.body_sha256,
        event.content_type, orjson.dumps(event.headers), orjson.dumps(auth), event.traceparent,
    )  # fmt: skip
    return [part for pair in zip(EVENT_FIELDS, values, strict=True) for part in pair]


def decode(fields: Fields) -> StreamEvent:
    """The event that `encode` wrote; raises UnknownVersion for one of another release, MalformedEntry for anything else.

    Checks what the model would check, one field after the other: a worker does this for every delivery, and the model's own
    validator would be its largest cost. A test holds the two against each other.
    """
    try:
        version = int(fields[b"version"])
        if version not in READABLE_VERSIONS:
            raise _unreadable(fields)
        return assembled(
            {
                "version": version,
                "id": fields[b"id"].decode() if _is_id(fields[b"id"]) else _refused(fields[b"id"]),
                "tenant_id": _name(fields[b"tenant_id"]),
                "source": _name(fields[b"source"]),
                "event_type": _repeated(fields[b"event_type"]),
                "repository": fields[b"repository"].decode(),
                "delivery_id": fields[b"delivery_id"].decode(),
                "key": fields[b"key"].decode(),
                "priority": PRIORITIES[fields[b"priority"]],
                "timestamp": from_epoch_ms(int(fields[b"timestamp"])),
                "payload": fields[b"payload"],
                "body_sha256": fields[b"body_sha256"].decode() if _is_sha256(fields[b"body_sha256"]) else _refused(fields[b"body_sha256"]),
                "content_type": _repeated(fields[b"content_type"]),
                "headers": _headers(fields[b"headers"]),
                "auth_context": AuthContext.__pydantic_validator__.validate_json(fields[b"auth_context"]),
                "traceparent": fields[b"traceparent"].decode(),
                "retry_count": int(fields.get(b"retry_count", b"0")),
            }
        )
    # The last two are raised for a timestamp that no calendar has.
    except (KeyError, ValueError, OverflowError, OSError) as error:
        raise MalformedEntry(f"the entry is no StreamEvent: {type(error).__name__}: {error}", fields=fields) from error


def _unreadable(fields: Fields) -> MalformedEntry:
    """Whatever else an entry of another version holds: a number as its version, and whose it is."""
    version, readable = fields[b"version"], ", ".join(map(str, sorted(READABLE_VERSIONS)))
    said = f"the entry has version {version!r}, and this release reads {readable}"
    is_event = version.isdigit() and version[:1] != b"0" and all(fields.get(name) for name in KEPT_FIELDS)
    return UnknownVersion(said, fields=fields) if is_event else MalformedEntry(said, fields=fields)


def _refused(raw: bytes) -> NoReturn:
    raise ValueError(f"{raw[:100]!r} is no such value")


# Few of them come again and again; senders choose types, so what is remembered is bounded.
@functools.lru_cache(maxsize=4096)
def _name(raw: bytes) -> str:
    return raw.decode() if _is_name(raw) else _refused(raw)


@functools.lru_cache(maxsize=4096)
def _repeated(raw: bytes) -> str:
    return raw.decode()


def _headers(raw: bytes) -> dict[str, str]:
    headers = orjson.loads(raw)
    if type(headers) is not dict or not set(map(type, headers.values())) <= _TEXTS:
        raise ValueError("its headers are no texts by their names")
    return headers
