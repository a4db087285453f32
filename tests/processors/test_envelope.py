from __future__ import annotations

import base64
import hashlib
from typing import Any

import pytest
import structlog

from infra.clock import Clock
from infra.streams.reading import Lease
from processors.delivery import Delivery
from processors.envelope import header_text, headers_of, sign, signing_key
from processors.plan import Plan
from processors.registry import ProcessorSpec
from processors.settings import GroupSettings
from schemas.errors import ConfigError
from tests.events import an_event

TRACEPARENT = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"


def a_delivery(replay: bytes = b"", **changes: Any) -> Delivery:
    spec = ProcessorSpec("p", print, ("*",), max_attempts=4, timeout_ms=1000)
    plan = Plan(spec, group="crm", settings=GroupSettings(), log=structlog.get_logger())
    values: dict[str, Any] = {"event_id": "1", "attempt": 1, "started_at_ms": Clock().now_ms(), **changes}
    return Delivery(plan, Lease(0, "a-stream", "1-1", 1, [b"replay", replay] if replay else []), **values)


def hmac_by_hand(key: bytes, message: bytes) -> bytes:
    """RFC 2104, written out for a key below the block size."""
    padded = key.ljust(64, b"\0")
    inner = hashlib.sha256(bytes(byte ^ 0x36 for byte in padded) + message).digest()
    return hashlib.sha256(bytes(byte ^ 0x5C for byte in padded) + inner).digest()


def test_the_published_vector_of_standard_webhooks() -> None:
    key = signing_key(b"whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", at="secret")

    signature = sign(b'{"test": 2432232314}', event_id="msg_p5jXN8AQM9LWM0D4loKWxJek", at_s=1614265330, key=key)

    assert signature == "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="


def test_a_raw_secret_signs_any_bytes() -> None:
    key = signing_key(b"sixteen bytes or more", at="secret")

    expected = hmac_by_hand(b"sixteen bytes or more", b"e-1.1700000000.\xff\x00 no text")
    assert sign(b"\xff\x00 no text", event_id="e-1", at_s=1_700_000_000, key=key) == "v1," + base64.b64encode(expected).decode()


@pytest.mark.parametrize(
    ("secret", "sentence"),
    [
        (b"whsec_not base64!", "s: what follows `whsec_` is no base64, so the endpoint could verify nothing"),
        (b"whsec_c2hvcnQ=", "s: the secret has 5 bytes, and at least 16 are needed; a short secret can be guessed"),
    ],
)
def test_a_secret_that_cannot_sign_is_refused_and_not_shown(secret: bytes, sentence: str) -> None:
    with pytest.raises(ConfigError) as refused:
        signing_key(secret, at="s")

    assert str(refused.value) == sentence


def test_the_headers_tell_what_the_event_is() -> None:
    event = an_event(content_type="application/json; charset=utf-8", traceparent=TRACEPARENT)

    headers = headers_of(event, delivery=a_delivery(attempt=3), at_s=1_700_000_000, key=b"0123456789abcdef")

    assert dict(headers) == {
        "webhook-id": event.id,
        "webhook-timestamp": "1700000000",
        "webhook-signature": sign(event.payload, event_id=event.id, at_s=1_700_000_000, key=b"0123456789abcdef"),
        "idempotency-key": "crm:1",
        "x-hooklake-event-type": "github.push",
        "x-hooklake-tenant": "demo",
        "x-hooklake-source": "github",
        "x-hooklake-attempt": "3",
        "content-type": "application/json; charset=utf-8",
        "traceparent": TRACEPARENT,
    }


def test_without_a_key_nothing_is_signed() -> None:
    assert "webhook-signature" not in dict(headers_of(an_event(), delivery=a_delivery(), at_s=1, key=None))


@pytest.mark.parametrize("content_type", ["", "a\r\nx-injected: 1", "text/plain\n", "caf\u00e9"])
def test_a_content_type_that_is_no_header_is_left_out(content_type: str) -> None:
    assert "content-type" not in dict(headers_of(an_event(content_type=content_type), delivery=a_delivery(), at_s=1, key=None))


def test_a_traceparent_that_is_none_is_left_out() -> None:
    assert "traceparent" not in dict(headers_of(an_event(traceparent="00-x\r\n"), delivery=a_delivery(), at_s=1, key=None))


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("github.push", "github.push"),
        ('a b/c;d="e"', 'a b/c;d="e"'),
        ("x\r\ninjected: 1", "x%0D%0Ainjected: 1"),
        ("caf\u00e9 100%", "caf%C3%A9 100%25"),
        ("\udce9", "?"),
    ],
)
def test_foreign_text_cannot_break_out_of_its_header(text: str, written: str) -> None:
    assert header_text(text) == written
