"""Owns `StreamEvent`, the one value that travels from a sender's POST to the Delta row."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import Annotated, Any

from pydantic import AwareDatetime, BaseModel, ConfigDict, Field

VERSION = 1

# Names become parts of Redis keys, paths and metrics. `{}` would choose a cluster slot, `:` would forge a key,
# `..` and `/` a path: refuse rather than escape.
NAME_PATTERN = r"^[a-z0-9][a-z0-9_-]{0,62}$"
is_name = re.compile(NAME_PATTERN + r"\Z").match

ID_PATTERN = r"^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$"
SHA256_PATTERN = r"^[0-9a-f]{64}$"
GAP_PATTERN = r"^[ \t\r\n,\[\]]*$"
FLAG_PATTERN = r"^[a-z_]{1,40}$"

Name = Annotated[str, Field(pattern=NAME_PATTERN)]


class Priority(StrEnum):
    """The stream of a shard that an event is appended to."""

    URGENT = "urgent"
    DEFAULT = "default"
    LOW = "low"
    OVERFLOW = "overflow"


class _Frozen(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", ser_json_bytes="base64", val_json_bytes="base64")


class AuthContext(_Frozen):
    """How the receiver came to believe the sender: enough to verify the signature again years later."""

    scheme: str
    key_id: str = ""
    """Names the secret that matched, by a digest of it; never the secret."""
    signature_headers: dict[str, str] = Field(default_factory=dict)
    signed_url: str = ""
    verified_at: AwareDatetime
    remote_address: str = ""


class Part(_Frozen):
    """Which slice of a request's body an event is, where the receiver has made one event of each element.

    The signature is that of the whole body, which is `before` and `payload` of all parts in their order and `after` of the last.
    """

    number: int = Field(ge=1)
    """The first is 1."""
    of: int = Field(ge=1)
    """How many parts the body has."""
    body_sha256: str = Field(pattern=SHA256_PATTERN)
    """The digest of the whole body."""
    before: str = Field(pattern=GAP_PATTERN)
    """What stood between the part before, or the start of the body, and this one."""
    after: str = Field("", pattern=GAP_PATTERN)
    """What stood between the last part and the end of the body; empty for all others."""


class StreamEvent(_Frozen):
    """One webhook, as it was sent, or one element of it where its source splits bodies.

    `id` and `body_sha256` are its identity; an entry id on a stream is only a position. The names `version`, `id`,
    `tenant_id` and `source` are the same in all versions, so that any reader can at least say whose event it holds.
    """

    version: int = VERSION
    id: str = Field(pattern=ID_PATTERN)
    """UUIDv7, minted by the receiver."""
    tenant_id: Name
    source: Name
    event_type: str
    repository: str = ""
    """The subject: `owner/repo` for forges, else what the source's settings point at."""
    delivery_id: str = ""
    """The sender's own id of this delivery; the same over its retries. Empty when the scheme has none."""
    key: str = ""
    """Events of one key keep their order in groups that ask for it."""
    priority: Priority = Priority.DEFAULT
    timestamp: AwareDatetime
    """When the receiver had the whole request; whole milliseconds."""
    payload: bytes
    """The raw body, never re-serialised; of a part, its slice of the body."""
    body_sha256: str = Field(pattern=SHA256_PATTERN)
    content_type: str = ""
    headers: dict[str, str] = Field(default_factory=dict)
    """The allow-listed request headers, lower-case names."""
    auth_context: AuthContext
    traceparent: str = ""
    part: Part | None = None
    """None unless the event is one of several that came in one body."""
    flags: tuple[Annotated[str, Field(pattern=FLAG_PATTERN)], ...] = ()
    """What the receiver has to remark about it, such as `schema_mismatch`; nearly always nothing."""
    retry_count: int = 0
    """How often this group has retried it; filled in on the copy that a group receives."""


EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_ALL_FIELDS = set(StreamEvent.model_fields)
# What the model's constructor sets, by its own slots: by their names it would cost twice as much.
_new, _slots = StreamEvent.__new__, vars(BaseModel)
own_values: Callable[[StreamEvent], dict[str, Any]] = _slots["__dict__"].__get__
"""The values that an event has by itself, whatever its class says of `__dict__`."""
set_values: Callable[[StreamEvent, dict[str, Any]], None] = _slots["__dict__"].__set__
_set_fields_set = _slots["__pydantic_fields_set__"].__set__
_set_extra = _slots["__pydantic_extra__"].__set__
_set_private = _slots["__pydantic_private__"].__set__


def assembled(values: dict[str, Any], *, kind: type[StreamEvent] = StreamEvent) -> StreamEvent:
    """The event of values, one for each field, that the caller has checked as the model would: for who makes very many."""
    event = _new(kind)
    set_values(event, values)
    _set_fields_set(event, _ALL_FIELDS)
    _set_extra(event, None)
    _set_private(event, None)
    return event


_AUTH_FIELDS = set(AuthContext.model_fields)


def assembled_auth(values: dict[str, Any]) -> AuthContext:
    """The same of an event's `auth_context`."""
    auth = AuthContext.__new__(AuthContext)
    _slots["__dict__"].__set__(auth, values)
    _set_fields_set(auth, _AUTH_FIELDS)
    _set_extra(auth, None)
    _set_private(auth, None)
    return auth


def from_epoch_ms(value: int) -> datetime:
    return EPOCH + timedelta(milliseconds=value)


def to_epoch_ms(value: datetime) -> int:
    return round(value.timestamp() * 1000)
