"""Owns what a source is answered beyond receipts: its handshake with what it needs, and a fixed answer if it has one. Built at start."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from infra.settings import Settings, read_secret
from ingest.answers import ACCEPTED, Answer, accepted, typed_answer
from ingest.scheme import Handshake, Scheme
from ingest.settings import AnswerSettings, SourceSettings
from schemas.errors import ConfigError
from schemas.receipt import Receipt

LEAST_TOKEN_BYTES = 8
"""Of a verify token: people make it up in a form, and it lets nobody send anything."""
SIGNS = ("sha256", "sha512", "sha1")
SIGNED = ("sign-token", "hash-token")


@dataclass(frozen=True, slots=True, kw_only=True)
class Answering:
    """How a source's questions and events are answered."""

    handshake: Handshake = "none"
    verify_token: bytes = b""
    topics: frozenset[str] = frozenset()
    """The SNS topics that are believed; none: all of them."""
    confirms: bool = False
    status: int = ACCEPTED
    """Of the receipt of an event that was accepted."""
    fixed: Answer | None = None
    """In the place of that receipt."""

    @classmethod
    def of(cls, given: SourceSettings, *, scheme: Scheme, settings: Settings, at: str) -> Answering:
        """Raises ConfigError."""
        handshake = given.handshake or scheme.handshake
        _refuse_useless(given, handshake=handshake, at=at)
        if handshake in SIGNED and given.handshake is None and scheme.algorithm == "none":
            handshake = "none"  # Who sends unsigned has no secret to answer with.
        if handshake in SIGNED:
            _refuse_oracle(scheme, handshake=handshake, at=at)
        return cls(
            handshake=handshake,
            verify_token=_verify_token(given, handshake=handshake, settings=settings, at=at),
            topics=frozenset(given.topics),
            confirms=given.confirm_subscriptions,
            status=scheme.answered,
            fixed=_fixed(given.answer, scheme=scheme),
        )

    def answer(self, receipts: Sequence[Receipt]) -> Answer:
        """To an event that was accepted, or the parts of one body."""
        return self.fixed or accepted(receipts, status=self.status)


def _fixed(answer: AnswerSettings | None, *, scheme: Scheme) -> Answer | None:
    if answer is not None:
        return typed_answer(answer.status, answer.body.encode(), content_type=answer.content_type)
    # Discord wants a type of the nothing that there is.
    return typed_answer(204, b"", content_type="application/json") if scheme.answered == 204 else None


def _refuse_useless(given: SourceSettings, *, handshake: Handshake, at: str) -> None:
    if given.verify_token is not None and handshake != "hub-challenge":
        raise ConfigError(f"{at}.verify_token is for the handshake hub-challenge, and this source's is {handshake}: no effect")
    if (given.topics or given.confirm_subscriptions) and handshake != "confirm-subscription":
        raise ConfigError(f"{at}.topics and confirm_subscriptions are for Amazon SNS, and the handshake here is {handshake}: no effect")
    if given.confirm_subscriptions and not given.topics:
        raise ConfigError(f"{at}.topics is empty: with confirm_subscriptions anybody's topic would be subscribed to this receiver")


def _refuse_oracle(scheme: Scheme, *, handshake: Handshake, at: str) -> None:
    """What the asker chooses is signed with the secret that signs requests, so it must be no request."""
    if scheme.algorithm not in SIGNS:
        raise ConfigError(f"{at}.handshake={handshake} signs with the source's secret, and scheme {scheme.name} has none to sign with")
    if handshake == "sign-token" and (scheme.algorithm, scheme.encoding) != ("sha256", "base64"):
        raise ConfigError(f"{at}.handshake={handshake} answers with an HMAC-SHA256 in base64; set encoding: base64, as the sender has it")
    if handshake == "sign-token" and (not scheme.demands_json or scheme.is_batch):
        raise ConfigError(
            f"{at}.handshake={handshake} signs what anybody asks for, so that a body of that text would pass as the sender's; "
            "set body: json, which no such text is"
        )


def _verify_token(given: SourceSettings, *, handshake: Handshake, settings: Settings, at: str) -> bytes:
    """Without one the handshake is always refused: a source that was confirmed long ago needs none."""
    if handshake != "hub-challenge" or given.verify_token is None:
        return b""
    at = f"{at}.verify_token"
    return read_secret(given.verify_token, home=settings.home, files=settings.files, at=at, least_bytes=LEAST_TOKEN_BYTES)
