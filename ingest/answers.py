"""Owns the shapes of answers that are no errors: JSON, plain text, or nothing. Pure.

Text that a sender chose is never anything but plain text, whatever a browser would like to make of it.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence

import orjson

from infra.running.direct import Answer as Answer
from infra.running.direct import HeaderLines
from schemas.receipt import Receipt

ACCEPTED = 202

_NO_SNIFFING = (b"x-content-type-options", b"nosniff")


def json_headers(body: bytes) -> HeaderLines:
    return _json_headers(len(body))


# Receipts are all of a few lengths.
@functools.lru_cache(maxsize=1024)
def _json_headers(size_bytes: int) -> HeaderLines:
    return (b"content-type", b"application/json"), (b"content-length", str(size_bytes).encode())


def accepted(receipts: Sequence[Receipt], *, status: int) -> Answer:
    """Of a body that was split, the id of its first part and how many there are; a duplicate only if every part is one."""
    duplicate = b"false" if [receipt for receipt in receipts if not receipt.duplicate] else b"true"
    parts = b',"parts":%d' % len(receipts) if len(receipts) > 1 else b""
    spooled = b',"spooled":true' if receipts[0].spooled else b""
    body = b'{"event_id":"%b","duplicate":%b%b%b}' % (receipts[0].event_id.encode(), duplicate, parts, spooled)
    return status, json_headers(body), body


def new_event(event_id: str) -> bytes:
    """What is said of one event that is on the log and was not there before, as nearly all are."""
    return b'{"event_id":"%b","duplicate":false}' % event_id.encode()


def accepted_one(receipt: Receipt, *, status: int) -> Answer:
    """The same of one event that is on the log."""
    body = b'{"event_id":"%b","duplicate":%b}' % (receipt.event_id.encode(), b"true" if receipt.duplicate else b"false")
    return status, json_headers(body), body


def json_answer(content: object, *, status: int = 200) -> Answer:
    body = orjson.dumps(content)
    return status, (*json_headers(body), _NO_SNIFFING), body


def text_answer(text: str) -> Answer:
    return typed_answer(200, text.encode(), content_type="text/plain; charset=utf-8")


def typed_answer(status: int, body: bytes, *, content_type: str) -> Answer:
    headers = (b"content-type", content_type.encode()), _NO_SNIFFING
    if status == 204:  # which has no body, and must not say how long it is
        return status, headers, body
    return status, (*headers, (b"content-length", str(len(body)).encode())), body


def empty_answer(*, status: int = 200, headers: HeaderLines = ()) -> Answer:
    length = () if status == 204 else ((b"content-length", b"0"),)
    return status, (*headers, *length), b""
