"""The recipe in CONTRIBUTING.md is followed to the letter: its record, its vectors, and a body that `send` would make up."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from infra.clock import Clock
from ingest.describe import describe
from ingest.headers import Headers
from ingest.keys import prepare
from ingest.request import Request
from ingest.samples import sample
from ingest.scheme import Scheme
from ingest.signatures import sign, verify
from schemas.errors import BadSignature, StaleTimestamp
from tests.documents import ROOT
from tests.ingest.vectors import Vector, vectors_in

PAGE = (ROOT / "CONTRIBUTING.md").read_text()


def block(name: str) -> str:
    """The fenced block behind the comment of this name."""
    return PAGE.split(f"<!-- {name} -->\n```", 1)[1].split("\n", 1)[1].split("\n```", 1)[0]


@pytest.fixture(scope="module")
def acme() -> Scheme:
    names: dict[str, Any] = {}
    exec(block("record"), names)
    record = names["ACME"]
    assert isinstance(record, Scheme)
    return record


@pytest.fixture(scope="module")
def vector(acme: Scheme) -> Vector:
    (vector,) = vectors_in(json.loads(block("vectors")), scheme=acme)
    return vector


def test_the_vector_verifies_under_the_record(vector: Vector) -> None:
    assert vector.is_believed


def test_and_nothing_else_does(vector: Vector) -> None:
    for wrong in (replace(vector, body=vector.body + b" "), vector.with_signature(vector.signature[:-1]), vector.with_signature("")):
        with pytest.raises(BadSignature):
            wrong.verified()
    with pytest.raises(StaleTimestamp):
        replace(vector, later=timedelta(seconds=301)).verified()


def test_its_request_is_described(vector: Vector) -> None:
    described = describe(vector.scheme, request=vector.request)

    assert (described.event_type, described.delivery_id, described.repository) == ("acme.order.paid", "a-1", "s-7")


def test_sending_needs_no_more_than_the_record(acme: Scheme) -> None:
    key, now = prepare(acme, secret=b"acme-0123456789abcdef", at="secret"), Clock().now()
    body = sample(acme, event_type="order.paid", number=1)

    headers = sign(acme, request=Request(Headers([]), body), secret=key, now=now).headers

    arrived = Request(Headers([(name.encode(), value.encode()) for name, value in headers.items()]), body)
    assert verify(acme, request=arrived, secrets=[key], now=now).key_id == key.key_id
    assert describe(acme, request=arrived).event_type == "acme.order.paid"
