"""Owns what an event is wrapped in when it is forwarded: the headers and the Standard Webhooks signature. Pure."""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import re
from urllib.parse import quote

from infra.settings import LEAST_SECRET_BYTES
from infra.tracing import parse_traceparent
from processors.delivery import Delivery
from schemas.errors import ConfigError
from schemas.event import StreamEvent

SECRET_PREFIX = b"whsec_"
VISIBLE = "".join(chr(code) for code in range(0x20, 0x7F) if chr(code) != "%")
is_header_value = re.compile(r"[!-~]([ -~]*[!-~])?\Z").match

Headers = list[tuple[str, str]]


def signing_key(secret: bytes, *, at: str) -> bytes:
    """The bytes that sign: base64 after `whsec_`, else the secret itself. Raises ConfigError and never shows it."""
    if not secret.startswith(SECRET_PREFIX):
        return secret
    try:
        key = base64.b64decode(secret.removeprefix(SECRET_PREFIX), validate=True)
    except binascii.Error as error:
        raise ConfigError(f"{at}: what follows `whsec_` is no base64, so the endpoint could verify nothing") from error
    if len(key) < LEAST_SECRET_BYTES:
        raise ConfigError(
            f"{at}: the secret has {len(key)} bytes, and at least {LEAST_SECRET_BYTES} are needed; a short secret can be guessed"
        )
    return key


def sign(payload: bytes, *, event_id: str, at_s: int, key: bytes) -> str:
    """Standard Webhooks, symmetric: HMAC-SHA256 over `id.timestamp.body`."""
    signed = f"{event_id}.{at_s}.".encode() + payload
    return "v1," + base64.b64encode(hmac.digest(key, signed, hashlib.sha256)).decode()


def headers_of(event: StreamEvent, *, delivery: Delivery, at_s: int, key: bytes | None) -> Headers:
    """What the endpoint is told about the event; signed when there is a key. The body is the payload, untouched."""
    headers = [
        ("webhook-id", event.id),
        ("webhook-timestamp", str(at_s)),
        ("idempotency-key", delivery.idempotency_key),
        ("x-hooklake-event-type", header_text(event.event_type)),
        ("x-hooklake-tenant", event.tenant_id),
        ("x-hooklake-source", event.source),
        ("x-hooklake-attempt", str(delivery.attempt)),
    ]
    if delivery.is_replay:
        headers.append(("x-hooklake-replay", header_text(delivery.replay_id)))
    if key is not None:
        headers.append(("webhook-signature", sign(event.payload, event_id=event.id, at_s=at_s, key=key)))
    if is_header_value(event.content_type):
        headers.append(("content-type", event.content_type))
    if parse_traceparent(event.traceparent) is not None:
        headers.append(("traceparent", event.traceparent))
    return headers


def header_text(text: str) -> str:
    """Foreign text as a header can carry it: whatever is not visible ASCII, and `%`, is percent-encoded."""
    return quote(text.strip(), safe=VISIBLE, errors="replace")
