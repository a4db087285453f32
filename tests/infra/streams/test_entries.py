from __future__ import annotations

import contextlib
import re

import orjson
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from infra.streams.entries import EVENT_FIELDS, OPTIONAL_FIELDS, decode, decode_flat, encode
from infra.streams.scripts import script
from schemas.errors import MalformedEntry, UnknownVersion
from schemas.event import AuthContext, Part, Priority, StreamEvent, from_epoch_ms
from tests.events import an_event

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=40)


def as_stored(parts: list[str | bytes | int]) -> dict[bytes, bytes]:
    stored = [part if isinstance(part, bytes) else str(part).encode() for part in parts]
    return dict(zip(stored[::2], stored[1::2], strict=True))


@given(
    payload=st.binary(max_size=200),
    texts=st.lists(TEXT, min_size=5, max_size=5),
    headers=st.dictionaries(TEXT, TEXT, max_size=3),
    priority=st.sampled_from(Priority),
    at_ms=st.integers(0, 4_000_000_000_000),
)
def test_an_event_survives_the_wire(payload: bytes, texts: list[str], headers: dict[str, str], priority: Priority, at_ms: int) -> None:
    event_type, repository, delivery_id, key, content_type = texts
    event = an_event(
        payload=payload, event_type=event_type, repository=repository, delivery_id=delivery_id, key=key, content_type=content_type,
        headers=headers, priority=priority, timestamp=from_epoch_ms(at_ms),
    )  # fmt: skip

    assert decode(as_stored(encode(event))) == event
    assert decode_flat(flat(as_stored(encode(event)))) == event


@given(
    number=st.integers(1, 1000),
    before=st.text("[, \t\r\n", max_size=5),
    after=st.text("] \t\r\n", max_size=5),
    flags=st.lists(st.text("abz_", min_size=1, max_size=8), max_size=3),
)
def test_a_part_and_its_flags_survive_the_wire(number: int, before: str, after: str, flags: list[str]) -> None:
    part = Part(number=number, of=1000, body_sha256="a" * 64, before=before, after=after)
    event = an_event(part=part, flags=tuple(flags))
    logged = {b"incarnation": b"a", b"sequence": b"1", b"recheck": b"0", b"conflict": b"0"}

    assert decode(as_stored(encode(event))) == event
    assert decode_flat(flat(as_stored(encode(event)) | logged)) == event


def test_an_append_names_the_fields_as_they_are_encoded() -> None:
    named = re.findall(r"'(\w+)', ARGV\[v(?: \+ (\d+))?\]", script("append").text)

    assert named == [(name, str(place or "")) for place, name in enumerate(EVENT_FIELDS)]
    assert [*encode(an_event())[::2]] == [*EVENT_FIELDS]


def test_a_replay_names_the_fields_as_they_are_encoded() -> None:
    text = script("replay").text
    named = re.findall(r"'(\w+)', (\w+)", text.partition("later_of(ARGV[at + 1], least), now_ms,")[2].partition("'replay'")[0])
    unpacked = re.findall(r"\w+", text.partition("local version, ")[2].partition("=")[0])

    assert named == [(name, name) for name in EVENT_FIELDS]
    assert ["version", *unpacked] == [*EVENT_FIELDS]


def flat(fields: dict[bytes, bytes]) -> list[bytes]:
    return [part for pair in fields.items() for part in pair]


def decoded_flat(fields: dict[bytes, bytes]) -> StreamEvent | None:
    try:
        return decode_flat(flat(fields))
    except MalformedEntry:
        return None


def test_an_entry_is_read_wherever_its_fields_stand() -> None:
    event = an_event()
    fields = as_stored(encode(event))

    assert decode_flat(flat(dict(reversed(fields.items())))) == event
    assert decode_flat(flat({b"first": b"foreign", **fields})) == event
    assert decode_flat(flat({**fields, b"retry_count": b"3"})) == event.model_copy(update={"retry_count": 3})
    assert decode_flat(flat({**fields, b"retry_count": b"3", b"last": b"x"})) == event.model_copy(update={"retry_count": 3})
    assert decoded_flat({**fields, b"retry_count": b"many"}) is None
    assert decode_flat(flat({**fields, b"last": b"retry_count"})) == event
    assert decoded_flat({}) is None


def by_the_model(fields: dict[bytes, bytes]) -> StreamEvent:
    """What the model itself makes of an entry; raises ValueError."""
    texts = {name.decode(): value for name, value in fields.items()}
    read = {"headers": orjson.loads(fields[b"headers"]), "timestamp": from_epoch_ms(int(fields[b"timestamp"]))}
    auth = AuthContext.model_validate_json(fields[b"auth_context"])
    if b"part" in fields:  # an event without one has no such field
        read["part"] = Part.model_validate_json(fields[b"part"])
    if b"flags" in fields:
        read["flags"] = orjson.loads(fields[b"flags"])
    return StreamEvent(**{**texts, **read, "auth_context": auth, "retry_count": int(fields.get(b"retry_count", b"0"))})


ODD = st.one_of(
    st.binary(max_size=6),
    st.sampled_from(
        [b"", b"demo", b"de mo", b"DEMO", b"a" * 64, b"0", b"urgent", b"{}", b'{"a": 1}', b'{"a": "b"}', b"[]", b"null", b"demo\n"]
    ),
)


@given(field=st.sampled_from((*EVENT_FIELDS, *OPTIONAL_FIELDS)), value=ODD)
@example("flags", b'["schema_mismatch"]')
@example("flags", b'["a\\n"]')
@example("flags", b"[1]")
@example("part", b'{"number": 1, "of": 1, "body_sha256": "%s", "before": "["}' % (b"a" * 64))
@example("part", b'{"number": 0, "of": 1, "body_sha256": "%s", "before": "["}' % (b"a" * 64))
@example("part", b'{"number": 1, "of": 1, "body_sha256": "%s", "before": "x"}' % (b"a" * 64))
@example("headers", b'{"a": null}')
@example("tenant_id", b"demo\n")
@example("body_sha256", b"a" * 64 + b"\n")
@example("auth_context", b'{"scheme": "s", "verified_at": "2026-01-01T00:00:00"}')
def test_what_is_decoded_by_hand_is_what_the_model_accepts(field: str, value: bytes) -> None:
    fields = as_stored(encode(an_event())) | {field.encode(): value}
    if field == "version":
        return  # says which release reads it, and is decided before anything else
    try:
        expected: StreamEvent | None = by_the_model(fields)
    except (ValueError, OverflowError, OSError):
        expected = None

    try:
        decoded: StreamEvent | None = decode(fields)
    except MalformedEntry:
        decoded = None

    assert decoded == expected
    assert decoded_flat(fields) == expected
    assert decoded is None or (decoded.model_dump(), decoded.model_fields_set) == (
        decoded.model_copy().model_dump(),
        set(StreamEvent.model_fields),
    )


def test_a_later_version_is_named() -> None:
    fields = as_stored(encode(an_event())) | {b"version": b"2"}

    with pytest.raises(UnknownVersion, match="version b'2'"):
        decode(fields)


@pytest.mark.parametrize("fault", [{b"version": b"-2"}, {b"version": b"0"}, {b"version": b"2_0"}, {b"version": b"2", b"source": b""}])
def test_what_no_version_would_write_is_no_event_of_another_version(fault: dict[bytes, bytes]) -> None:
    with pytest.raises(MalformedEntry) as caught:
        decode(as_stored(encode(an_event())) | fault)

    assert not isinstance(caught.value, UnknownVersion)


@pytest.mark.parametrize(
    "fault",
    [
        {b"timestamp": b"99999999999999999999999"},
        {b"timestamp": b"9" * 20},
        {b"timestamp": b"-99999999999999999"},
        {b"timestamp": b"9" * 5000},
        {b"headers": b"[]"},
        {b"headers": b'{"a": 1}'},
        {b"auth_context": b"null"},
        {b"retry_count": b"many"},
        {b"priority": b"\xff"},
    ],
)
def test_an_event_with_one_foreign_value_is_a_malformed_entry(fault: dict[bytes, bytes]) -> None:
    fields = as_stored(encode(an_event())) | fault

    with pytest.raises(MalformedEntry, match="the entry is no StreamEvent"):
        decode(fields)


@given(st.sampled_from(sorted(as_stored(encode(an_event())))), st.binary(max_size=40))
def test_whatever_stands_in_a_field_it_is_an_event_or_a_malformed_entry(name: bytes, value: bytes) -> None:
    with contextlib.suppress(MalformedEntry):
        decode(as_stored(encode(an_event())) | {name: value})


@given(st.dictionaries(st.sampled_from([b"version", b"id", b"headers", b"timestamp", b"payload"]), st.binary(max_size=20)))
def test_foreign_bytes_are_a_malformed_entry_that_keeps_them(fields: dict[bytes, bytes]) -> None:
    with pytest.raises(MalformedEntry) as caught:
        decode(fields)

    assert caught.value.fields == fields


@given(
    texts=st.lists(TEXT, min_size=4, max_size=4), headers=st.dictionaries(TEXT, TEXT, max_size=3), at_ms=st.integers(0, 4_000_000_000_000)
)
@example(texts=["github", "", "", ""], headers={}, at_ms=1_700_000_000_000)
def test_an_auth_context_is_written_as_its_model_writes_it(texts: list[str], headers: dict[str, str], at_ms: int) -> None:
    scheme, key_id, signed_url, remote_address = texts
    auth = AuthContext(
        scheme=scheme, key_id=key_id, signature_headers=headers, signed_url=signed_url, verified_at=from_epoch_ms(at_ms),
        remote_address=remote_address,
    )  # fmt: skip

    written = as_stored(encode(an_event(auth_context=auth)))[b"auth_context"]

    assert written == orjson.dumps(auth.model_dump(mode="json"))
