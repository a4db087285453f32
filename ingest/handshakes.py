"""Owns handshakes: what senders ask before they send, or between events, and what they are answered. Pure.

    asked without a body (GET, HEAD, OPTIONS)    `answer_to_question`, before anything is verified: senders sign no question
    asked in a signed body (POST)                `answer_to_body`, after its signature is verified; it is no event, and is not stored

Where an answer is a signature of text that the asker chose, only text is signed that can never be a request of the source: otherwise
whoever asks could have requests signed. What a secret is compared with takes the same time wherever they differ.
"""

from __future__ import annotations

import hashlib
import hmac
import re
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from urllib.parse import parse_qsl

from ingest.answering import Answering
from ingest.answers import Answer, empty_answer, json_answer, text_answer, typed_answer
from ingest.headers import Headers
from ingest.keys import Key
from ingest.request import member_of
from ingest.scheme import Handshake
from schemas.errors import BadSignature, MalformedRequest, MethodNotAllowed

LONGEST_CHALLENGE = 512
MOST_FIELDS = 16
METHODS: Mapping[Handshake, str] = MappingProxyType(
    {"hub-challenge": "GET", "sign-token": "GET", "allow-origin": "OPTIONS", "answer-head": "HEAD"}
)
"""How each handshake asks that does so without a body."""

# No colon and no brace: neither `v0:time:body` nor a JSON object, which are what the same secrets sign.
is_token = re.compile(r"[A-Za-z0-9+/=_-]{1,256}\Z").match
is_origin = re.compile(r"[A-Za-z0-9.-]{1,253}(:[0-9]{1,5})?\Z").match


def answer_to_question(answering: Answering, *, method: str, query: str, headers: Headers, keys: Sequence[Key]) -> Answer:
    """Raises MethodNotAllowed where the source's sender asks no such thing, BadSignature, and MalformedRequest."""
    if METHODS.get(answering.handshake) != method:
        raise MethodNotAllowed("webhooks are sent with POST", allow=", ".join(filter(None, ("POST", METHODS.get(answering.handshake)))))
    if answering.handshake == "hub-challenge":
        return _confirmed(_fields(query), verify_token=answering.verify_token)
    if answering.handshake == "sign-token":
        # The newest secret: while one replaces another, the sender may have either.
        return json_answer({"response_token": f"sha256={keys[0].sign(_token(_fields(query).get('crc_token')).encode())}"})
    if answering.handshake == "allow-origin":
        return _allowed(headers)
    return empty_answer()


def answer_to_body(answering: Answering, *, content: object, key: Key | None) -> Answer | None:
    """None for everything but a handshake; `key` is the one that signed the request. Raises MalformedRequest."""
    asked = _IN_BODY.get(answering.handshake)
    return asked(content, key) if asked is not None and isinstance(content, dict) else None


def _echoed(content: object, _: Key | None) -> Answer | None:
    if member_of(content, "type") != "url_verification":
        return None
    return text_answer(_challenge(member_of(content, "challenge")))


def _hashed(content: object, key: Key | None) -> Answer | None:
    if member_of(content, "event") != "endpoint.url_validation" or key is None:
        return None
    token = _token(member_of(content, "payload.plainToken"))
    return json_answer({"plainToken": token, "encryptedToken": key.sign(token.encode())})


def _pinged(content: object, _: Key | None) -> Answer | None:
    """Discord's two kinds of requests count their types apart: of webhook events 0 is a ping, of interactions 1 without an event."""
    kind = member_of(content, "type")
    if isinstance(kind, bool) or member_of(content, "event") is not None:
        return None
    if kind == 0:
        return typed_answer(204, b"", content_type="application/json")
    return json_answer({"type": 1}) if kind == 1 else None


_IN_BODY: Mapping[Handshake, Callable[[object, Key | None], Answer | None]] = MappingProxyType(
    {"echo-challenge": _echoed, "hash-token": _hashed, "answer-ping": _pinged}
)


def _confirmed(fields: dict[str, str], *, verify_token: bytes) -> Answer:
    # Digests, because tokens have any length, and a comparison of unlike lengths ends at once.
    given = hashlib.sha256(fields.get("hub.verify_token", "").encode("utf-8", "surrogatepass")).digest()
    if not verify_token or not hmac.compare_digest(given, hashlib.sha256(verify_token).digest()):
        raise BadSignature("hub.verify_token is not the verify_token of the source")
    if fields.get("hub.mode") != "subscribe":
        raise MalformedRequest("hub.mode is not subscribe, which is all that is confirmed here")
    return text_answer(_challenge(fields.get("hub.challenge")))


def _allowed(headers: Headers) -> Answer:
    """Consent to be sent events, which are verified like any other. A callback that is asked for instead is never called."""
    origin = headers.one("webhook-request-origin")
    if not is_origin(origin):
        raise MalformedRequest("the header WebHook-Request-Origin is missing, or is no host")
    consent = (b"webhook-allowed-origin", origin.encode()), (b"allow", b"POST, OPTIONS")
    rate = ((b"webhook-allowed-rate", b"*"),) if headers.one("webhook-request-rate") else ()
    return empty_answer(headers=(*consent, *rate))


def _fields(query: str) -> dict[str, str]:
    """Raises MalformedRequest when it is none, or a name stands there twice: which one counts?"""
    try:
        pairs = parse_qsl(query, keep_blank_values=True, strict_parsing=True, errors="strict", max_num_fields=MOST_FIELDS) if query else []
    except ValueError as error:
        raise MalformedRequest("the query cannot be read") from error
    fields = dict(pairs)
    if len(fields) < len(pairs):
        raise MalformedRequest("the query has a name twice")
    return fields


def _challenge(value: object) -> str:
    if not isinstance(value, str) or not 0 < len(value) <= LONGEST_CHALLENGE or not value.isprintable():
        raise MalformedRequest(f"the challenge is missing, or is no text of 1 to {LONGEST_CHALLENGE} characters")
    return value


def _token(value: object) -> str:
    if not isinstance(value, str) or not is_token(value):
        raise MalformedRequest("the token to sign is missing, or is not what this sender uses: letters, digits and + / = _ -")
    return value
