"""The quick reading against the engine: what it takes the engine takes too, and says the same of it."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from infra.clock import Clock
from ingest.answering import Answering
from ingest.describe import Description, describe
from ingest.headers import Headers
from ingest.keys import prepare
from ingest.quick import Quick, Read, Thorough, reader_of
from ingest.request import Request
from ingest.schemes import GITHUB
from ingest.settings import RateSettings
from ingest.signatures import Proof, sign, verify
from ingest.sources import Source
from schemas.errors import Refused
from schemas.event import Priority
from tests.ingest.receivers import GITHUB_SECRET, OTHER_SECRET, PUSH
from tests.ingest.vectors import Vector, all_vectors

NOW = Clock().now()
RawHeaders = list[tuple[bytes, bytes]]
KEYS = [prepare(GITHUB, secret=secret, at="test") for secret in (GITHUB_SECRET, OTHER_SECRET)]
SOURCE = Source(
    tenant="demo", name="github", scheme=GITHUB, secrets=KEYS, max_body_bytes=1_000_000, priority=Priority.DEFAULT, answering=Answering()
)


def now() -> datetime:
    return NOW


def quickly(source: Source, raw: RawHeaders, body: bytes) -> tuple[Proof, Description] | None:
    """As the short way asks: not about headers that stand there twice."""
    quick = Quick.of(source)
    headers = dict(raw)
    read = quick.read(headers, body, now=now) if quick and len(headers) == len(raw) else None
    return (read.proof, read.described) if read else None


def by_the_engine(source: Source, raw: RawHeaders, body: bytes) -> tuple[Proof, Description] | None:
    request = Request(Headers(raw), body)
    try:
        return verify(source.scheme, request=request, secrets=source.secrets, now=NOW), describe(source.scheme, request=request)
    except Refused:
        return None


def pushed(body: bytes, *, by: Any = 0, **changes: Any) -> RawHeaders:
    """What GitHub would send with this body; `changes` replaces headers, with `_` for `-`, or leaves them out."""
    signed = sign(GITHUB, request=Request(Headers([]), body), secret=KEYS[by], now=NOW).headers
    usual = {"content-type": "application/json", "x-github-event": "push", "x-github-delivery": "d-1", "user-agent": "x", **signed}
    headers = {**usual, **{name.replace("_", "-"): value for name, value in changes.items()}}
    return [(name.encode(), value.encode("latin-1")) for name, value in headers.items() if value is not None]


def source_of(vector: Vector) -> Source:
    return replace(SOURCE, scheme=vector.scheme, secrets=[vector.key], name=vector.scheme.name)


@pytest.mark.parametrize("vector", all_vectors(), ids=lambda vector: f"{vector.scheme.name}: {vector.origin}")
def test_no_vector_is_read_otherwise_than_by_the_engine(vector: Vector) -> None:
    raw = [(name.encode(), value.encode("latin-1")) for name, value in vector.headers]
    for changed in (raw, raw[1:], [*raw, (b"x-github-event", b"push")], [*raw, (b"content-type", b"application/json")]):
        read = quickly(source_of(vector), changed, vector.body)

        assert read is None or read == by_the_engine(source_of(vector), changed, vector.body)


def test_these_schemes_are_read_quickly_and_all_others_thoroughly() -> None:
    readers = {vector.scheme.name: type(reader_of(source_of(vector))) for vector in all_vectors()}

    quick = {"github", "bitbucket", "shopify"}
    by_public_key = {vector.scheme.name for vector in all_vectors() if vector.scheme.uses_public_key}
    assert {name for name, reader in readers.items() if reader is Quick} == quick
    assert {name for name, reader in readers.items() if reader is Thorough} == set(readers) - by_public_key - quick


@pytest.mark.parametrize(
    "more",
    [
        {"encodings": ("gzip",)},
        {"splits": True},
        {"rate": RateSettings(per_second=1)},
        {"answering": Answering(confirms=True)},
        {"scheme": replace(GITHUB, algorithm="none")},
    ],
    ids=lambda more: next(iter(more)),
)
def test_a_source_of_which_more_is_asked_has_no_short_way(more: dict[str, Any]) -> None:
    assert reader_of(replace(SOURCE, **more)) is None


@pytest.mark.parametrize("vector", [one for one in all_vectors() if one.method == "POST" and not one.query], ids=lambda one: one.origin)
@pytest.mark.parametrize("more", [b"", b" "])
def test_a_thorough_reading_is_the_engines(vector: Vector, more: bytes) -> None:
    sent = replace(vector, body=vector.body + more)
    raw = {name.encode(): value.encode("latin-1") for name, value in sent.headers}

    read = Thorough(replace(source_of(sent), public_url=sent.public_url)).read(raw, sent.body, now=lambda: sent.at)

    try:
        assert read == Read.of(sent.verified(), describe(sent.scheme, request=sent.request))
    except Refused:
        assert read is None


def test_a_push_is_read_quickly_whichever_secret_signed_it() -> None:
    for secret, key in enumerate(KEYS):
        raw = pushed(PUSH, by=secret)

        read = quickly(SOURCE, raw, PUSH)

        assert read is not None
        assert read == by_the_engine(SOURCE, raw, PUSH)
        assert read[0].key_id == key.key_id


@pytest.mark.parametrize(
    "changes",
    [
        {"x_hub_signature_256": "sha256=" + "0" * 64},
        {"x_hub_signature_256": "sha256="},
        {"x_hub_signature_256": ""},
        {"x_hub_signature_256": None},
        {"x_hub_signature_256": "sha1=" + "0" * 40},
        {"x_hub_signature_256": "\xe9" * 71},
        {"x_github_event": None},
        {"x_github_event": "no type!"},
        {"x_github_delivery": None},
        {"x_github_delivery": "two words"},
        {"x_github_delivery": "d" * 129},
        {"content_encoding": "gzip"},
        {"transfer_encoding": "chunked"},
        {"upgrade": "h2c"},
        {"content_length": "0" * 13 + "65"},
        {"content_type": "application/x-www-form-urlencoded"},
        {"content_type": "text/plain"},
        {"content_type": None},
    ],
)
def test_what_is_not_as_usual_is_left_to_the_engine(changes: dict[str, str | None]) -> None:
    assert quickly(SOURCE, pushed(PUSH, **changes), PUSH) is None


@pytest.mark.parametrize("body", [b"", b"[]", b"no JSON", b"{", b'{"a": NaN}', b'"text"', b"\xff", b'{"a":"\\ud800"}', b"[" * 2000])
def test_bodies_that_are_no_objects_are_left_to_the_engine(body: bytes) -> None:
    assert quickly(SOURCE, pushed(body), body) is None


def test_another_length_or_spelling_of_a_signature_is_not_taken() -> None:
    signature = dict(pushed(PUSH))[b"x-hub-signature-256"].decode()

    for other in (
        signature[:-1],
        signature + "0",
        signature.upper(),
        signature + " ",
        signature.replace("sha256=", "sha256=="),
        signature[7:],
    ):
        assert quickly(SOURCE, pushed(PUSH, x_hub_signature_256=other), PUSH) is None


members: Any = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats() | st.text(max_size=8) | st.just("x" * 600),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["full_name", "action", "0", "x"]), inner, max_size=3),
    max_leaves=5,
)


@given(
    content=st.dictionaries(st.sampled_from(["action", "repository", "other"]), members, max_size=3),
    name=st.sampled_from(["push", "pull_request", "", "no type!", "\u00e9"]),
    delivery_id=st.sampled_from(["d-1", "", "\u00e9", "with space", "x" * 200]),
    extra=st.dictionaries(st.sampled_from(["x-github-hook-id", "x-other", "cookie", "authorization"]), st.text("ab\u00e9 ", max_size=4)),
)
def test_whatever_a_body_says_is_read_as_the_engine_reads_it(content: Any, name: str, delivery_id: str, extra: dict[str, str]) -> None:
    body = json.dumps(content).encode()
    raw = pushed(body, x_github_event=name, x_github_delivery=delivery_id, **{key.replace("-", "_"): value for key, value in extra.items()})

    read = quickly(SOURCE, raw, body)

    assert read is None or read == by_the_engine(SOURCE, raw, body)


def test_ever_new_names_are_not_remembered_without_end() -> None:
    quick = Quick.of(SOURCE)
    assert quick is not None

    for number in range(3000):
        body = b'{"action":"a%d"}' % number
        read = quick.read(dict(pushed(body, x_github_event=f"e{number}", **{f"x_github_{number}": "v"})), body, now=now)

        assert read is not None
        assert read.described.event_type == f"github.e{number}.a{number}"
        assert read.described.headers[f"x-github-{number}"] == "v"
    assert max(len(quick._types), len(quick._kept)) <= 1024


def test_no_large_name_is_remembered() -> None:
    quick = Quick.of(SOURCE)
    assert quick is not None
    body = b'{"action":"%b"}' % (b"a" * 100_000)

    read = quick.read(dict(pushed(body)), body, now=now)

    assert read is not None
    assert read.described.event_type == "github.push"
    assert not quick._types
