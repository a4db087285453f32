"""Owns the shapes of answers that are no errors: JSON, plain text, or nothing. Pure.

Text that a sender chose is never anything but plain text, whatever a browser would like to make of it.
"""

from __future__ import annotations

import orjson

Answer = tuple[int, list[tuple[bytes, bytes]], bytes]
"""Status, headers and body, as ASGI sends them."""

_NO_SNIFFING = (b"x-content-type-options", b"nosniff")


def json_headers(body: bytes) -> list[tuple[bytes, bytes]]:
    return [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]


def json_answer(content: object, *, status: int = 200) -> Answer:
    body = orjson.dumps(content)
    return status, [*json_headers(body), _NO_SNIFFING], body


def text_answer(text: str) -> Answer:
    return typed_answer(200, text.encode(), content_type="text/plain; charset=utf-8")


def typed_answer(status: int, body: bytes, *, content_type: str) -> Answer:
    headers = [(b"content-type", content_type.encode()), _NO_SNIFFING]
    if status != 204:  # which has no body, and must not say how long it is
        headers.append((b"content-length", str(len(body)).encode()))
    return status, headers, body


def empty_answer(*, status: int = 200, headers: list[tuple[bytes, bytes]] | None = None) -> Answer:
    length = [] if status == 204 else [(b"content-length", b"0")]
    return status, [*(headers or []), *length], b""
