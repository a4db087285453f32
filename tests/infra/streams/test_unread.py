from __future__ import annotations

import copy
import pickle
import threading
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from infra.streams.entries import EVENT_FIELDS, decode, encode
from infra.streams.unread import UnreadEvent, glance
from schemas.errors import MalformedEntry, UnknownVersion
from schemas.event import StreamEvent
from tests.events import an_event
from tests.infra.streams.test_entries import ODD, as_stored, flat

EVENT = an_event(headers={"x-github-event": "push"}, key="a/b", repository="a/b")
ENTRY = as_stored(encode(EVENT))
READ_AT_ONCE = {"id", "tenant_id", "source", "event_type", "payload", "traceparent", "retry_count"}


def test_what_a_worker_needs_is_there_and_the_rest_is_not_read() -> None:
    event = glance(flat(ENTRY))

    assert {name: getattr(event, name) for name in READ_AT_ONCE} == {name: getattr(EVENT, name) for name in READ_AT_ONCE}
    assert type(event) is UnreadEvent


@pytest.mark.parametrize("name", sorted(set(StreamEvent.model_fields) - READ_AT_ONCE))
def test_a_look_at_any_other_field_reads_the_event(name: str) -> None:
    event = glance(flat(ENTRY))

    assert getattr(event, name) == getattr(EVENT, name)
    assert type(event) is StreamEvent


LOOKS: dict[str, Callable[[StreamEvent], object]] = {
    "==": lambda event: event == EVENT,
    "== from the other side": lambda event: decode(ENTRY) == event,
    "== of two unread ones": lambda event: event == glance(flat(ENTRY)),
    "!=": lambda event: event != EVENT,
    "model_dump": lambda event: event.model_dump(),
    "model_dump_json": lambda event: event.model_dump_json(),
    "model_copy": lambda event: event.model_copy(),
    "model_copy with an update": lambda event: event.model_copy(update={"key": "other"}).model_dump(),
    "model_validate": lambda event: StreamEvent.model_validate(event).model_dump(),
    "model_fields_set": lambda event: event.model_fields_set,
    "repr": repr,
    "str": str,
    "dict": dict,
    "vars": vars,
    "copy": copy.copy,
    "deepcopy": copy.deepcopy,
    "pickle": lambda event: pickle.loads(pickle.dumps(event)),
    "no such attribute": lambda event: hasattr(event, "nonsense"),
    "no such private attribute": lambda event: hasattr(event, "__nonsense__"),
    "isinstance": lambda event: isinstance(event, StreamEvent),
}


@pytest.mark.parametrize("look", LOOKS.values(), ids=LOOKS.keys())
def test_whatever_is_done_with_an_unread_event_shows_the_event(look: Callable[[StreamEvent], object]) -> None:
    assert look(glance(flat(ENTRY))) == look(decode(ENTRY))


def test_an_unread_event_is_as_frozen_as_any() -> None:
    with pytest.raises(ValueError, match="frozen"):
        setattr(glance(flat(ENTRY)), "key", "other")  # noqa: B010 - mypy knows that it cannot be assigned


def test_two_threads_may_look_at_once() -> None:
    event, found = glance(flat(ENTRY)), list[object]()
    threads = [threading.Thread(target=lambda: found.append(event.auth_context)) for _ in range(8)]

    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert found == [EVENT.auth_context] * 8


@pytest.mark.parametrize(
    ("more", "retry_count"),
    [({b"retry_count": b"3"}, 3), ({b"raw_fields": b"", b"first_error": b"e", b"first_traceback": b"t", b"retry_count": b"2"}, 2), ({}, 0)],
)
def test_the_count_of_retries_is_found_among_whatever_follows(more: dict[bytes, bytes], retry_count: int) -> None:
    assert glance(flat(ENTRY | more)).retry_count == retry_count


def looked_at(fields: dict[bytes, bytes]) -> StreamEvent | type[Exception]:
    try:
        event = glance(flat(fields))
        _ = event.auth_context
        return event
    except MalformedEntry as error:
        return type(error)


def decoded(fields: dict[bytes, bytes]) -> StreamEvent | type[Exception]:
    try:
        return decode(fields)
    except MalformedEntry as error:
        return type(error)


@given(field=st.sampled_from(EVENT_FIELDS), value=ODD)
def test_a_look_finds_what_decoding_finds(field: str, value: bytes) -> None:
    fields = ENTRY | {field.encode(): value}

    assert looked_at(fields) == decoded(fields)


def test_what_is_no_event_at_all_is_found_at_once() -> None:
    for fault, error in (({b"version": b"2"}, UnknownVersion), ({b"id": b"1"}, MalformedEntry), ({b"source": b"A"}, MalformedEntry)):
        with pytest.raises(error):
            glance(flat(ENTRY | fault))


def test_a_field_that_cannot_be_read_is_found_by_whoever_looks() -> None:
    event = glance(flat(ENTRY | {b"headers": b"[]"}))

    with pytest.raises(MalformedEntry) as caught:
        _ = event.key
    assert caught.value.fields[b"headers"] == b"[]"
