"""A request that is released becomes the events that the receiver would have made of it."""

from __future__ import annotations

import gzip
from dataclasses import replace
from datetime import UTC, datetime

import pytest

from ingest.headers import Headers
from ingest.keys import prepare
from ingest.releasing import events_of
from ingest.request import Request
from ingest.scheme import Header
from ingest.schemes import GENERIC
from ingest.signatures import sign
from ingest.sources import Source
from schemas.event import Priority
from schemas.quarantined import QuarantinedRequest

THEN = datetime(2026, 1, 15, 12, 0, tzinfo=UTC)
BODY = b'[{"n": 1}, {"n": 2}]'
SCHEME = replace(GENERIC, signature=Header("x-signature"), namespace="batches", is_batch=True)
SOURCE = Source(
    tenant="demo",
    name="batches",
    scheme=SCHEME,
    secrets=[prepare(SCHEME, secret=b"a-secret-0123456789abcdef", at="secret")],
    max_body_bytes=1_000_000,
    priority=Priority.DEFAULT,
    splits=True,
)


def refused(body: bytes, headers: dict[str, str]) -> QuarantinedRequest:
    """One that was signed, and was refused for another reason."""
    signed = sign(SCHEME, request=Request(Headers([]), body), secret=SOURCE.secrets[0], now=THEN).headers
    return QuarantinedRequest(
        event_id="019bc1a0-0000-7000-8000-000000000001",
        tenant_id="demo",
        source="batches",
        code="schema_mismatch",
        reason="",
        received_at=THEN,
        headers={**headers, **signed},
        body=body,
    )


@pytest.mark.parametrize("encodings", [(), ("gzip",)])
def test_a_body_is_split_also_where_its_source_may_compress(encodings: tuple[str, ...]) -> None:
    events = events_of(refused(BODY, {}), source=replace(SOURCE, encodings=encodings), now=THEN)

    assert [event.payload for event in events] == [b'{"n": 1}', b'{"n": 2}']


def test_a_body_that_is_compressed_stays_whole() -> None:
    body = gzip.compress(BODY)

    (event,) = events_of(refused(body, {"content-encoding": "gzip"}), source=replace(SOURCE, encodings=("gzip",)), now=THEN)

    assert (event.payload, event.flags) == (body, ("not_split",))
