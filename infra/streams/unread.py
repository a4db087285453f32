"""Owns an event that is read when somebody looks: a worker hands out very many, and most processors look at few of their fields.

Read at once are whose event it is, what decides where it goes, and its bytes. With the first look at anything else, at all of it
included (comparing, printing, dumping, copying), the rest is read, and the event is an ordinary `StreamEvent` from then on.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, SupportsIndex

from infra.streams.entries import (
    END,
    NO_EVENT,
    as_fields,
    checked_values,
    decode_flat,
    is_id,
    is_in_place,
    name_of,
    others_of,
    text_of,
)
from schemas.errors import MalformedEntry
from schemas.event import StreamEvent, assembled, own_values, set_values

FLAT = "_flat"


def _read(event: StreamEvent) -> dict[str, Any]:
    """All values of the event, which is an ordinary one from here on. In two threads at once it is done twice, and harms nobody."""
    values = own_values(event)
    if (flat := values.get(FLAT)) is None:
        return values
    try:
        values = checked_values(flat[1:END:2], more=others_of(flat))
    except NO_EVENT as error:
        raise MalformedEntry(f"the entry is no StreamEvent: {type(error).__name__}: {error}", fields=as_fields(flat)) from error
    _become(event, values)
    return values


def _become(event: StreamEvent, values: dict[str, Any]) -> None:
    set_values(event, values)
    object.__setattr__(event, "__class__", StreamEvent)


class UnreadEvent(StreamEvent):
    """A `StreamEvent` to whoever asks. A look raises MalformedEntry when the entry is no event after all."""

    # Whoever wants all values at once asks here: the model's own methods, copy, pickle. A look at one value does not pass by.
    __dict__ = property(_read, _become)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or name not in StreamEvent.model_fields:
            raise AttributeError(f"{StreamEvent.__name__!r} object has no attribute {name!r}")
        return _read(self)[name]

    def __eq__(self, other: object) -> bool:
        _read(self)
        if isinstance(other, UnreadEvent):
            _read(other)
        return self == other  # both are ordinary by now

    def __reduce_ex__(self, protocol: SupportsIndex) -> Any:
        _read(self)
        return self.__reduce_ex__(protocol)

    def __repr_name__(self) -> str:
        return StreamEvent.__name__


def glance(flat: Sequence[bytes]) -> StreamEvent:
    """The event of an entry as the server sends it; raises what `decode` raises, but nothing about fields that only a later look reads."""
    if not is_in_place(flat) or not is_id(flat[3]):
        return decode_flat(flat)
    try:
        values = {
            "id": flat[3].decode(),
            "tenant_id": name_of(flat[5]),
            "source": name_of(flat[7]),
            "event_type": text_of(flat[9]),
            "payload": flat[21],
            "traceparent": flat[31].decode(),
            "retry_count": int(more[b"retry_count"]) if (more := others_of(flat)) and b"retry_count" in more else 0,
            FLAT: flat,
        }
    except NO_EVENT:
        return decode_flat(flat)
    return assembled(values, kind=UnreadEvent)
