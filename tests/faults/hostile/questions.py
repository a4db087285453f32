"""Owns the attacks on handshakes: questions without a body, which nobody signs, and signed ones. None of them is ever an event."""

from __future__ import annotations

import json
from collections.abc import Mapping
from random import Random
from typing import Any
from urllib.parse import urlencode

from ingest.posting import SignedPost
from ingest.scheme import Handshake
from tests.faults.hostile.attacks import Attack, wire
from tests.faults.hostile.bodies import NASTY_TEXTS
from tests.faults.hostile.sources import VERIFY_TOKEN, Target

ASKED_IN_HEADS: Mapping[Handshake, bytes] = {
    "hub-challenge": b"GET",
    "sign-token": b"GET",
    "allow-origin": b"OPTIONS",
    "answer-head": b"HEAD",
}
ASKED_IN_BODIES: tuple[Handshake, ...] = ("echo-challenge", "hash-token", "answer-ping")


def asks_in_head(target: Target) -> bool:
    return target.source.answering.handshake in ASKED_IN_HEADS


def asks_in_body(target: Target) -> bool:
    return target.source.answering.handshake in ASKED_IN_BODIES


def question(rng: Random, target: Target) -> Attack:
    """Mostly by the method that the source's sender has; now and then with a body that would be an event."""
    method = ASKED_IN_HEADS[target.source.answering.handshake] if rng.random() < 0.7 else rng.choice((b"GET", b"HEAD", b"OPTIONS"))
    path = target.path.encode() + b"?" + _query(rng)
    post = target.signed(number=1) if rng.random() < 0.2 else SignedPost(target.path, {}, b"")
    origin = _text(rng).encode()
    lines = (b"WebHook-Request-Origin: " + origin, b"WebHook-Request-Rate: " + rng.choice((b"120", b"*", b"\xff")))
    return Attack("question", wire(post, extra=rng.choice((lines, lines[:1], lines * 2, ())), method=method, path=path))


def _query(rng: Random) -> bytes:
    text = _text(rng)
    fields = {
        "hub.mode": rng.choice(("subscribe", "subscribe", "subscribe", text)),
        "hub.verify_token": rng.choice((VERIFY_TOKEN, VERIFY_TOKEN, VERIFY_TOKEN, text)),
        "hub.challenge": text,
        "crc_token": text,
    }
    whole = urlencode(fields).encode()
    spoilt = (b"", b"&", b"=", b"hub.mode", b"%", b"%ff=%ff", b"\xff", whole[:-1], whole + b"&" + whole, b"a=1&" * 5000, b"crc_token=%00")
    return whole if rng.random() < 0.7 else rng.choice(spoilt)


def _text(rng: Random) -> str:
    """One that is answered as often as not."""
    return rng.choice((rng.choice(NASTY_TEXTS), "a-challenge"))


def signed_question(rng: Random, target: Target) -> Attack:
    """What is to be echoed or signed is the sender's to choose, and it may be anything."""
    value: Any = rng.choice((_text(rng), _text(rng), None, True, 7, [], {}, "x" * 600))
    contents: Mapping[Handshake, dict[str, Any]] = {
        "echo-challenge": {"type": "url_verification", "challenge": value},
        "hash-token": {"event": "endpoint.url_validation", "payload": rng.choice(({"plainToken": value}, value))},
        "answer-ping": {"type": rng.choice((0, 1, 0.0, 1.0)), "data": value},
    }
    post = target.signed(json.dumps(contents[target.source.answering.handshake]).encode())
    return Attack("signed question", wire(post))
