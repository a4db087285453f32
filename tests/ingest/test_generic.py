"""What a source's settings can describe, and which descriptions have a hole."""

from __future__ import annotations

import base64
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from infra.settings import LogSettings
from ingest.headers import Headers
from ingest.keys import prepare
from ingest.request import Request
from ingest.settings import SourceSettings
from ingest.signatures import sign, verify
from ingest.sources import scheme_of
from schemas.errors import ConfigError
from schemas.event import StreamEvent
from tests.ingest.receivers import Answer, post, start_receiver, write_home

NOW = datetime(2026, 1, 15, 12, 0, tzinfo=UTC)
TOKEN = {"header": "X-Token", "algorithm": "token"}
BASIC = {"header": "Authorization", "prefix": "Basic ", "algorithm": "token", "encoding": "base64"}
STAMPED = {"header": "X-Signature", "signed": "{timestamp}.{body}", "timestamp_header": "X-Time"}


def settings(**given: Any) -> SourceSettings:
    return SourceSettings(scheme="generic", **given)


@pytest.mark.parametrize(
    ("given", "signed"),
    [
        ({"header": "X-Signature"}, b"body"),
        ({"header": "X-Signature", "signed": "{body}"}, b"body"),
        (STAMPED, b"1768478400.body"),
        ({**STAMPED, "signed": "v1:{timestamp}:{body}", "timestamp_unit": "ms"}, b"v1:1768478400000:body"),
        ({**STAMPED, "timestamp_unit": "iso"}, b"2026-01-15T12:00:00Z.body"),
        ({**STAMPED, "signed": "{id}.{timestamp}.{body}", "delivery_id_header": "X-Id"}, b"d-1.1768478400.body"),
        ({"header": "X-Signature", "signed": "{method}{url}{body}"}, b"POSThttps://example.com/hookbody"),
    ],
)
def test_a_description_is_what_is_signed(given: dict[str, Any], signed: bytes) -> None:
    scheme = scheme_of(settings(**given), name="billing", at="billing")
    key = prepare(scheme, secret=b"0123456789abcdef", at="secret")
    unsigned = Request(Headers([(b"x-id", b"d-1")]), b"body", public_url="https://example.com/hook")

    headers = sign(scheme, request=unsigned, secret=key, now=NOW).headers

    assert headers["x-signature"] == key.sign(signed)
    raw = [(b"x-id", b"d-1"), *((name.encode(), value.encode()) for name, value in headers.items())]
    arrived = Request(Headers(raw), b"body", public_url="https://example.com/hook")
    assert verify(scheme, request=arrived, secrets=[key], now=NOW).key_id == key.key_id


def test_a_token_may_stand_behind_a_word_and_a_space() -> None:
    scheme = scheme_of(settings(header="Authorization", prefix="Bearer ", algorithm="token"), name="billing", at="billing")
    key = prepare(scheme, secret=b"0123456789abcdef", at="secret")

    arrived = Request(Headers([(b"authorization", b"Bearer 0123456789abcdef")]), b"body")

    assert verify(scheme, request=arrived, secrets=[key], now=NOW).signature_headers == {}


def test_a_user_and_a_password_are_shown_as_basic_authentication_says() -> None:
    """By the example of RFC 7617."""
    scheme = scheme_of(settings(**BASIC), name="billing", at="billing")

    signed = sign(
        scheme, request=Request(Headers([]), b"body"), secret=prepare(scheme, secret=b"Aladdin:open sesame", at="secret"), now=NOW
    )

    assert signed.headers == {"authorization": "Basic QWxhZGRpbjpvcGVuIHNlc2FtZQ=="}


def test_a_request_with_basic_authentication_is_taken_and_what_it_shows_is_not_stored(
    home: Path, receiver_log: LogSettings, stored: Callable[[], dict[str, StreamEvent]]
) -> None:
    source = {"scheme": "generic", "secrets": ["file:secrets/login"], **BASIC}
    write_home(home, log=receiver_log, tenants={"demo": {"sources": {"forms": source}}})
    login = home / "secrets" / "login"
    login.touch(mode=0o600)
    login.write_text("Aladdin:open sesame\n")
    running = start_receiver(home)

    def answer(user_and_password: str) -> Answer:
        shown = "Basic " + base64.b64encode(user_and_password.encode()).decode()
        return post(running.port, body=b"a=1", headers={"authorization": shown}, path="/hooks/demo/forms")

    try:
        right, *wrong = [answer(tried) for tried in ("Aladdin:open sesame", "Aladdin:open sesame!", "aladdin:open sesame", "Aladdin:", "")]
    finally:
        running.stop()

    assert (right.status, [one.status for one in wrong]) == (202, [401] * 4)
    event = stored()[right.json["event_id"]]
    assert (event.payload, event.event_type) == (b"a=1", "forms.received")
    assert [shown for shown in ("QWxhZGRpbjpv", "Aladdin", "authorization") if shown in repr(event)] == []


def test_a_token_source_may_name_deliveries_and_types_by_other_headers() -> None:
    scheme = scheme_of(settings(**TOKEN, delivery_id_header="X-Id", event_type_header="X-Type"), name="billing", at="billing")

    assert scheme.kept_headers >= {"x-id", "x-type"}
    assert "x-token" not in scheme.kept_headers


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"header": "X", "signed": "{timestamp}.{body}"}, "need each other"),
        ({"header": "X", "timestamp_header": "X-Time"}, "need each other"),
        ({**STAMPED, "signed": "{timestamp}"}, r"no \{body\}.*any other body"),
        ({**STAMPED, "signed": "{time}.{body}"}, r"'\{time\}'.*none of \{body\}, \{timestamp\}"),
        ({**STAMPED, "signed": "{timestamp.{body}"}, "none of"),
        ({**STAMPED, "signed": "{id}.{timestamp}.{body}"}, "delivery_id_header is missing"),
        ({**STAMPED, "algorithm": "token"}, "no effect with `algorithm: token`"),
        ({"header": "X", "tolerance_ms": 1000}, "tolerance_ms has no effect.*signs no time"),
        ({**TOKEN, "delivery_id_header": "x-token"}, r"header=x-token shows the secret itself.*stored with every event"),
        ({**TOKEN, "event_type_header": "X-TOKEN"}, r"header=x-token shows the secret itself.*stored with every event"),
        ({**TOKEN, "header": "User-Agent"}, r"header=user-agent shows the secret itself.*stored with every event"),
    ],
)
def test_a_hole_in_a_description_is_named(given: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        scheme_of(settings(**given), name="billing", at="tenants.demo.sources.billing")


def test_a_source_may_set_how_far_a_signed_time_may_be_from_ours() -> None:
    scheme = scheme_of(SourceSettings(scheme="stripe", tolerance_ms=600_000), name="stripe", at="stripe")

    assert scheme.tolerance_s == 600
