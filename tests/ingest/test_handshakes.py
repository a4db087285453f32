"""What senders ask before they send, with the examples that they publish, and what strangers ask."""

from __future__ import annotations

import base64
import hashlib
import hmac
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import orjson
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from infra.clock import Clock
from infra.settings import LogSettings, load_settings
from ingest.headers import Headers
from ingest.request import Request
from ingest.signatures import sign
from ingest.sources import Sources
from schemas.errors import ConfigError
from schemas.event import StreamEvent
from tests.ingest.receivers import GENERIC_SECRET, Answer, RunningReceiver, post, write_home

VERIFY_TOKEN = b"meatyhamhock"
GENERIC: dict[str, Any] = {"scheme": "generic", "secrets": ["file:secrets/generic"], "header": "X-Twitter-Webhooks-Signature"}
CRC: dict[str, Any] = {**GENERIC, "prefix": "sha256=", "encoding": "base64", "body": "json", "handshake": "sign-token"}
SHARED: dict[str, Any] = {"secrets": ["file:secrets/other", "file:secrets/generic"]}
SOURCES: dict[str, Any] = {
    "slack": {"scheme": "slack", **SHARED},
    "zoom": {"scheme": "zoom", **SHARED},
    "meta": {"scheme": "meta", **SHARED, "verify_token": "file:secrets/verify"},
    "meta-done": {"scheme": "meta", **SHARED},
    "twitter": CRC,
    "discord": {"scheme": "discord", "secrets": ["file:secrets/discord"]},
    "grid": {"scheme": "cloudevents", **SHARED},
    "intercom": {"scheme": "intercom", **SHARED},
    "github": {"scheme": "github", **SHARED},
    "twiml": {**GENERIC, "answer": {"status": 200, "body": "<Response/>", "content_type": "text/xml"}},
    "quiet": {**GENERIC, "answer": {"status": 204}},
}
DISCORD_KEY = Ed25519PrivateKey.from_private_bytes(bytes(range(32)))
Stored = Callable[[], dict[str, StreamEvent]]
CHALLENGE = "3eZbrw1aBm2rZgRNFdxV2595E9CY3gmdALWMmHkvFXO7tYXAYM8P"


def made_home(home: Path, *, log: LogSettings, sources: dict[str, Any] = SOURCES) -> Path:
    write_home(home, log=log, tenants={"demo": {"sources": sources}})
    for name, value in (("verify", VERIFY_TOKEN), ("discord", DISCORD_KEY.public_key().public_bytes_raw().hex().encode())):
        path = home / "secrets" / name
        path.touch(mode=0o600)
        path.write_bytes(value)
    return home


@pytest.fixture(scope="module")
def receiver_home(tmp_path_factory: pytest.TempPathFactory, receiver_log: LogSettings) -> Path:
    return made_home(tmp_path_factory.mktemp("handshakes"), log=receiver_log)


def ask(receiver: RunningReceiver, source: str, query: str = "", *, method: str = "GET", **headers: str) -> Answer:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return post(receiver.port, body=b"", headers=named, path=f"/hooks/demo/{source}{'?' if query else ''}{query}", method=method)


def send(
    receiver: RunningReceiver, home: Path, source: str, content: object, headers: dict[str, str] | None = None, *, signed: bool = True
) -> Answer:
    """Posts it as its provider would, signed with the second of the source's secrets."""
    found = Sources.from_settings(load_settings(home)).find("demo", source=source)
    body = content if isinstance(content, bytes) else orjson.dumps(content)
    made = sign(found.scheme, request=Request(Headers([]), body), secret=found.secrets[-1], now=Clock().now()).headers if signed else {}
    return post(
        receiver.port, body=body, headers={"content-type": "application/json", **made, **(headers or {})}, path=f"/hooks/demo/{source}"
    )


def is_plain_text(answer: Answer, text: str) -> bool:
    kind, sniffing = answer.headers["content-type"], answer.headers["x-content-type-options"]
    return (answer.status, answer.body.decode(), kind, sniffing) == (200, text, "text/plain; charset=utf-8", "nosniff")


def test_slacks_challenge_is_echoed_and_is_no_event(receiver: RunningReceiver, receiver_home: Path, stored: Stored) -> None:
    question = {"token": "Jhj5dZrVaK7ZwHHjRyZWjbDl", "challenge": CHALLENGE, "type": "url_verification"}

    assert is_plain_text(send(receiver, receiver_home, "slack", question), CHALLENGE)
    assert not [event for event in stored().values() if event.source == "slack"]


def test_a_challenge_that_nobody_signed_is_not_echoed(receiver: RunningReceiver, receiver_home: Path) -> None:
    question = {"challenge": CHALLENGE, "type": "url_verification"}

    unsigned = send(receiver, receiver_home, "slack", question, signed=False)
    forged = send(receiver, receiver_home, "slack", question, {"x-slack-signature": "v0=" + "0" * 64})

    assert [(answer.status, answer.code) for answer in (unsigned, forged)] == [(401, "bad_signature")] * 2
    assert CHALLENGE.encode() not in unsigned.body + forged.body


def test_html_in_a_challenge_is_plain_text(receiver: RunningReceiver, receiver_home: Path) -> None:
    html = "<script>alert(1)</script>"

    assert is_plain_text(send(receiver, receiver_home, "slack", {"type": "url_verification", "challenge": html}), html)
    query = urlencode({"hub.mode": "subscribe", "hub.verify_token": "meatyhamhock", "hub.challenge": html})
    assert is_plain_text(ask(receiver, "meta", query), html)


@pytest.mark.parametrize("challenge", [None, "", 5, ["x"], "x" * 513, "a\nb", "\x1b]52;"], ids=repr)
def test_a_challenge_that_is_none_is_refused(receiver: RunningReceiver, receiver_home: Path, challenge: object) -> None:
    answer = send(receiver, receiver_home, "slack", {"type": "url_verification", "challenge": challenge})

    assert (answer.status, answer.code) == (400, "malformed_request")


def test_other_messages_of_slack_are_events(receiver: RunningReceiver, receiver_home: Path, stored: Stored) -> None:
    answer = send(receiver, receiver_home, "slack", {"type": "event_callback", "event_id": "Ev1", "event": {"type": "app_mention"}})

    assert stored()[answer.json["event_id"]].event_type == "slack.app_mention"


def test_zooms_token_is_signed_with_the_secret_that_signed_the_question(receiver: RunningReceiver, receiver_home: Path) -> None:
    token = "qgg8vlvZRS6UYooatFL8Aw"
    question = {"payload": {"plainToken": token}, "event_ts": 1654503849680, "event": "endpoint.url_validation"}

    answer = send(receiver, receiver_home, "zoom", question)

    expected = hmac.new(GENERIC_SECRET, token.encode(), hashlib.sha256).hexdigest()
    assert (answer.status, answer.json) == (200, {"plainToken": token, "encryptedToken": expected})


@pytest.mark.parametrize("token", ["v0:1654503849:{}", '{"event":"x"}', "x" * 257, "", None, 7, "a b", "a\n"], ids=repr)
def test_nothing_is_signed_that_could_be_a_request(receiver: RunningReceiver, receiver_home: Path, token: object) -> None:
    answer = send(receiver, receiver_home, "zoom", {"payload": {"plainToken": token}, "event": "endpoint.url_validation"})

    assert (answer.status, answer.code) == (400, "malformed_request")


def test_a_token_that_nobody_signed_is_not_signed(receiver: RunningReceiver, receiver_home: Path) -> None:
    question = {"payload": {"plainToken": "abc"}, "event": "endpoint.url_validation"}

    assert send(receiver, receiver_home, "zoom", question, signed=False).status == 401


def test_metas_challenge_is_echoed_to_who_knows_the_token(receiver: RunningReceiver) -> None:
    query = "hub.mode=subscribe&hub.challenge=1158201444&hub.verify_token=meatyhamhock"

    assert is_plain_text(ask(receiver, "meta", query), "1158201444")


@pytest.mark.parametrize(
    ("source", "query", "status"),
    [
        ("meta", "", 401),
        ("meta", "hub.mode=subscribe&hub.challenge=1", 401),
        ("meta", "hub.mode=subscribe&hub.challenge=1&hub.verify_token=", 401),
        ("meta", "hub.mode=subscribe&hub.challenge=1&hub.verify_token=meatyhamhocK", 401),
        ("meta", "hub.mode=subscribe&hub.challenge=1&hub.verify_token=%ff", 400),
        ("meta", "hub.mode=subscribe&hub.challenge=1&hub.verify_token=x&hub.verify_token=meatyhamhock", 400),
        ("meta", "hub.mode=unsubscribe&hub.challenge=1&hub.verify_token=meatyhamhock", 400),
        ("meta", "hub.mode=subscribe&hub.verify_token=meatyhamhock", 400),
        ("meta", "hub.mode=subscribe&hub.verify_token=meatyhamhock&hub.challenge=" + "x" * 513, 400),
        ("meta", "&".join(f"a{n}=1" for n in range(17)), 400),
        ("meta-done", "hub.mode=subscribe&hub.challenge=1&hub.verify_token=", 401),
        ("meta-done", "hub.mode=subscribe&hub.challenge=1&hub.verify_token=meatyhamhock", 401),
    ],
)
def test_who_does_not_know_the_token_or_asks_something_else_is_refused(
    receiver: RunningReceiver, source: str, query: str, status: int
) -> None:
    answer = ask(receiver, source, query)

    assert (answer.status, answer.code) == (status, {400: "malformed_request", 401: "bad_signature"}[status])


def test_a_crc_token_is_signed_in_base64(receiver: RunningReceiver) -> None:
    answer = ask(receiver, "twitter", "crc_token=MTIzNDU2Nzg5&nonce=abc")

    expected = base64.b64encode(hmac.digest(GENERIC_SECRET, b"MTIzNDU2Nzg5", "sha256")).decode()
    assert (answer.status, answer.json) == (200, {"response_token": f"sha256={expected}"})


@pytest.mark.parametrize("token", ['{"forged":true}', "[1]", "", "x" * 257, "a b"])
def test_a_crc_token_that_could_be_a_body_is_not_signed(receiver: RunningReceiver, token: str) -> None:
    assert ask(receiver, "twitter", urlencode({"crc_token": token})).code == "malformed_request"


@pytest.mark.parametrize("content_type", ["", "application/json", "application/x-www-form-urlencoded"])
@pytest.mark.parametrize("token", ["12345", "forged=true"])
def test_what_was_signed_for_a_token_is_no_signature_of_a_request(receiver: RunningReceiver, token: str, content_type: str) -> None:
    signature = ask(receiver, "twitter", urlencode({"crc_token": token})).json["response_token"]

    headers = {"x-twitter-webhooks-signature": signature, "content-type": content_type}
    answer = post(receiver.port, body=token.encode(), headers=headers, path="/hooks/demo/twitter")

    assert (answer.status, answer.code) == (400, "malformed_request")


def discord(key: Ed25519PrivateKey, content: object) -> dict[str, str]:
    stamp = str(Clock().now_ms() // 1000)
    signature = key.sign(stamp.encode() + orjson.dumps(content)).hex()
    return {"x-signature-ed25519": signature, "x-signature-timestamp": stamp}


def test_discords_pings_are_answered_and_are_no_events(receiver: RunningReceiver, receiver_home: Path, stored: Stored) -> None:
    ping = {"version": 1, "application_id": "1234560123453231555", "type": 0}
    interaction = {"application_id": "1", "id": "2", "type": 1, "version": 1}
    event = {"version": 1, "application_id": "1", "type": 1, "event": {"type": "APPLICATION_AUTHORIZED"}}

    answers = [
        send(receiver, receiver_home, "discord", content, discord(DISCORD_KEY, content), signed=False)
        for content in (ping, interaction, event)
    ]

    assert [(answer.status, answer.body) for answer in answers[:2]] == [(204, b""), (200, b'{"type":1}')]
    assert answers[0].headers["content-type"] == "application/json"
    (found,) = [event for event in stored().values() if event.source == "discord"]
    assert (answers[2].status, answers[2].body, found.event_type) == (204, b"", "discord.APPLICATION_AUTHORIZED")


def test_a_ping_that_discord_signed_wrongly_on_purpose_is_401(receiver: RunningReceiver, receiver_home: Path) -> None:
    ping = {"version": 1, "application_id": "1", "type": 0}

    forged = send(receiver, receiver_home, "discord", ping, discord(Ed25519PrivateKey.generate(), ping), signed=False)

    assert (forged.status, forged.code) == (401, "bad_signature")


def test_cloudevents_are_allowed_from_who_asks(receiver: RunningReceiver) -> None:
    answer = ask(receiver, "grid", method="OPTIONS", WebHook_Request_Origin="eventemitter.example.com", WebHook_Request_Rate="120")

    given = {name: value for name, value in answer.headers.items() if name.startswith(("webhook-", "allow"))}
    assert (answer.status, given) == (
        200,
        {"webhook-allowed-origin": "eventemitter.example.com", "webhook-allowed-rate": "*", "allow": "POST, OPTIONS"},
    )


@pytest.mark.parametrize("origin", ["", "https://example.com", "a b", "*", "x" * 300])
def test_an_origin_that_is_no_host_is_refused(receiver: RunningReceiver, origin: str) -> None:
    assert ask(receiver, "grid", method="OPTIONS", WebHook_Request_Origin=origin).status == 400


def test_intercoms_probe_is_answered(receiver: RunningReceiver) -> None:
    answer = ask(receiver, "intercom", method="HEAD")

    assert (answer.status, answer.body) == (200, b"")


@pytest.mark.parametrize("method", ["GET", "HEAD", "OPTIONS", "PUT", "DELETE", "PATCH", "TRACE", "POST"])
def test_unknown_sources_are_unknown_by_every_method(receiver: RunningReceiver, method: str) -> None:
    for path in ("/hooks/demo/nobody", "/hooks/nobody/github"):
        assert post(receiver.port, body=b"", headers={}, path=path, method=method).status == 404


@pytest.mark.parametrize(
    ("source", "method", "allow"), [("github", "GET", "POST"), ("meta", "PUT", "POST, GET"), ("grid", "GET", "POST, OPTIONS")]
)
def test_a_method_that_the_source_does_not_use_is_not_allowed(receiver: RunningReceiver, source: str, method: str, allow: str) -> None:
    answer = ask(receiver, source, method=method)

    assert (answer.status, answer.code, answer.headers["allow"]) == (405, "method_not_allowed", allow)


def test_githubs_ping_is_an_event_like_any_other(receiver: RunningReceiver, receiver_home: Path, stored: Stored) -> None:
    headers = {"x-github-event": "ping", "x-github-delivery": "ping-1"}

    answer = send(receiver, receiver_home, "github", {"zen": "Keep it logically awesome.", "hook_id": 1}, headers)

    assert (answer.status, stored()[answer.json["event_id"]].event_type) == (202, "github.ping")


@pytest.mark.parametrize(
    ("source", "status", "body", "kind"),
    [("twiml", 200, b"<Response/>", "text/xml"), ("quiet", 204, b"", "text/plain; charset=utf-8")],
)
def test_a_source_may_have_its_own_answer(
    receiver: RunningReceiver, receiver_home: Path, stored: Stored, source: str, status: int, body: bytes, kind: str
) -> None:
    answer = send(receiver, receiver_home, source, {"n": 1})

    assert (answer.status, answer.body, answer.headers["content-type"]) == (status, body, kind)
    assert [event.payload for event in stored().values() if event.source == source] == [b'{"n":1}']
    assert send(receiver, receiver_home, source, {"n": 1}, signed=False).status == 401


@pytest.mark.parametrize(
    ("source", "says"),
    [
        ({**CRC, "body": "any"}, r"handshake=sign-token signs what anybody asks for"),
        ({**CRC, "encoding": "hex"}, r"set encoding: base64"),
        ({**CRC, "split": True}, r"handshake=sign-token signs what anybody asks for"),
        ({**GENERIC, "verify_token": "file:secrets/verify"}, r"verify_token is for the handshake hub-challenge"),
        ({**GENERIC, "confirm_subscriptions": True}, r"are for Amazon SNS"),
        ({**GENERIC, "handshake": "confirm-subscription", "confirm_subscriptions": True}, r"topics is empty: .* anybody's topic"),
        ({**GENERIC, "handshake": "nonsense"}, r"handshake"),
        ({"scheme": "zoom", "unsigned": True, "handshake": "sign-token"}, r"has none to sign with"),
        ({**GENERIC, "topics": ["arn:aws:sns:evil.example/:1:x"]}, r"topics"),
        ({**GENERIC, "answer": {"status": 500}}, r"answer\.status"),
        ({**GENERIC, "answer": {"status": 204, "body": "x"}}, r"there is no body"),
        ({**GENERIC, "answer": {"content_type": "text/plain\r\nx: y"}}, r"content_type"),
        ({"scheme": "cloudevents", **SHARED, "handshake": "hash-token"}, r"has none to sign with"),
        ({"scheme": "meta", **SHARED, "verify_token": "file:secrets/short"}, r"verify_token: the secret has 3 bytes"),
    ],
)
def test_mistakes_are_found_at_start(tmp_path: Path, source: dict[str, Any], says: str) -> None:
    home = made_home(tmp_path, log=LogSettings(), sources={"hook": source})
    (home / "secrets" / "short").touch(mode=0o600)
    (home / "secrets" / "short").write_bytes(b"abc")

    with pytest.raises(ConfigError, match=says):
        Sources.from_settings(load_settings(home))
