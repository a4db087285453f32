"""Owns `Scheme`: what can be said about how one kind of sender signs, names and announces what it sends. Data only.

The engine (`signatures.py`, and what it is made of) and `describe.py` do what a record says; nothing in them knows a provider.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from functools import cached_property
from typing import Literal

from infra.settings import LEAST_SECRET_BYTES
from ingest.answers import ACCEPTED

MIB = 1024 * 1024
FIVE_MINUTES_S = 300

Encoding = Literal["hex", "base64"]
Algorithm = Literal["sha256", "sha512", "sha1", "sha256-plain", "token", "ed25519", "ecdsa-p256", "rsa-sha256", "rsa-sha1", "none"]
"""The hash of an HMAC; `sha256-plain`, a hash of secret and content; `token`, the secret itself; or a public key's. `none` believes all."""

SecretForm = Literal["text", "base64", "ed25519-base64", "ed25519-hex", "spki-base64", "certificate"]
"""How a secret or public key is written. A leading `whsec_` or `whpk_` belongs to the base64 ones."""

TimestampUnit = Literal["s", "ms", "iso"]

Handshake = Literal[
    "none", "echo-challenge", "hash-token", "hub-challenge", "sign-token", "confirm-subscription", "allow-origin", "answer-ping",
    "answer-head",
]  # fmt: skip
"""What the sender asks before it sends, or between events; `handshakes.py` answers it.

`echo-challenge` a body with a challenge to echo · `hash-token` a token to sign and give back · `hub-challenge` a GET with a token to
check and a challenge to echo · `sign-token` a GET with a token to sign · `confirm-subscription` a signed body that wants a call back ·
`allow-origin` an OPTIONS that asks for consent · `answer-ping` a signed body that is answered and is no event · `answer-head` a HEAD.
"""


class Part(Enum):
    """A piece of what is signed. Text between the pieces stands in a record as it is."""

    BODY = "body"
    TIMESTAMP = "timestamp"
    ID = "id"
    METHOD = "method"
    URL = "url"
    """The address as the sender has it: the source's `public_url`, and the query of the request."""
    PLAIN_URL = "plain_url"
    """The same, with the escapes undone that HubSpot undoes."""
    FORM = "form"
    """The fields of a form, sorted by name, each followed by its value."""
    NOTIFICATION = "notification"
    """The members that Amazon SNS signs, each as its name and its value on a line."""


BODY_ONLY: tuple[Part | str, ...] = (Part.BODY,)


@dataclass(frozen=True, slots=True)
class Header:
    """A value that stands in a header; its name in lower case."""

    name: str

    def __str__(self) -> str:
        return f"header {self.name}"


@dataclass(frozen=True, slots=True)
class Member:
    """A value that stands in a JSON body or a form; dotted, and numbers count the items of a list."""

    path: str

    def __str__(self) -> str:
        return f"body {self.path}"


@dataclass(frozen=True, slots=True)
class Item:
    """A value that stands in the list that the signature's header is."""

    name: str

    def __str__(self) -> str:
        return f"item {self.name}"


@dataclass(frozen=True, slots=True)
class Digest:
    """Of a sender that does not name its deliveries: the hash of the body, with the signed timestamp in front where it has one."""

    timestamped: bool = False

    def __str__(self) -> str:
        return "hash of timestamp and body" if self.timestamped else "hash of body"


@dataclass(frozen=True, slots=True)
class Within:
    """A name that others may give, too: the hash of it and of who gave it, where both stand there."""

    giver: Header | Member
    name: Header | Member

    def __str__(self) -> str:
        return f"hash of {self.giver} and {self.name}"


Place = Header | Member | Digest | Within


def parts_of(places: Sequence[Place]) -> list[Header | Member]:
    """Where something stands, of all these places."""
    within = [part for place in places if isinstance(place, Within) for part in (place.giver, place.name)]
    return [*(place for place in places if isinstance(place, Header | Member)), *within]


@dataclass(frozen=True, slots=True)
class Items:
    """A header that is a list: `t=...,v1=...,v1=...`. Only the signatures under `wanted` are looked at."""

    separator: str
    wanted: str
    pair: str = "="


@dataclass(frozen=True, kw_only=True)
class Scheme:
    """One way of signing an HTTP request, and of naming what is in it."""

    name: str
    documentation: str
    """What the signing was read from, and what to know about this sender."""
    confirmed: bool = False
    """A published vector was recomputed; else the record follows a description only."""

    signature: Header | Member
    prefix: str = ""
    """What stands before the signature."""
    items: Items | None = None
    encoding: Encoding = "hex"
    algorithm: Algorithm = "sha256"
    signed: tuple[Part | str, ...] = BODY_ONLY
    secret_form: SecretForm = "text"
    least_secret_bytes: int = LEAST_SECRET_BYTES
    """Of the key itself, after decoding."""
    port_may_vary: bool = False
    """The sender may have signed the address with or without the port that its protocol has anyway."""

    timestamp: Header | Member | Item | None = None
    timestamp_unit: TimestampUnit = "s"
    tolerance_s: int = FIVE_MINUTES_S
    """How far a timestamp may be from our clock, before or after."""

    namespace: str = ""
    """The first part of every event type; empty: the source's name."""
    event_type: tuple[Place, ...] = ()
    """The first place that has one; none: every event of the source is `<namespace>.received`."""
    action: str = ""
    """The member of the body that refines the type, as `opened` in `github.pull_request.opened`."""
    delivery_id: tuple[Place, ...] = ()
    """The first place that has one. None: the sender does not name its deliveries, and duplicates are not recognised."""
    repository: str = ""
    """Where in the body the subject stands, dotted; empty: the events have none."""
    key: str = ""
    """Where in the body the ordering key stands, dotted; empty: no order is asked for."""

    is_batch: bool = False
    """The body is a JSON array of events, and is split unless the source's settings say otherwise. `event_type`, `delivery_id` and
    `repository` are those of an item."""
    demands_json: bool = False
    """A body that is no JSON object (of a batch: array) is refused; otherwise it is stored, whatever it is."""
    form_field: str = ""
    """The field of a form-encoded body that holds the JSON; the signature is over the form all the same."""
    is_form: bool = False
    """The body is a form, and its fields are its members."""
    stored_headers: tuple[str, ...] = ()
    """Headers that start with one of these are stored with the event, beside those named above."""
    max_body_bytes: int | None = None
    """The provider's own cap; None: that of the receiver."""
    handshake: Handshake = "none"
    answered: int = ACCEPTED
    """The status with which an event's receipt is answered, where a sender takes another one for a failure. With 204 there is none."""

    @cached_property
    def reads_body(self) -> bool:
        """Whether anything but the stored bytes depends on what the body says."""
        places = parts_of((*self.event_type, *self.delivery_id))
        return bool(self.demands_json or self.repository or self.key or self.action or any(isinstance(place, Member) for place in places))

    @cached_property
    def is_url_bound(self) -> bool:
        return Part.URL in self.signed or Part.PLAIN_URL in self.signed

    @cached_property
    def signs_id(self) -> bool:
        return Part.ID in self.signed

    @cached_property
    def uses_public_key(self) -> bool:
        return self.algorithm in ("ed25519", "ecdsa-p256", "rsa-sha256", "rsa-sha1")

    @cached_property
    def proof_headers(self) -> tuple[str, ...]:
        """The headers that are needed, beside body and address, to verify a request again. A token proves itself: it is never stored."""
        if self.algorithm in ("token", "none"):
            return ()
        signed_id = self.delivery_id[:1] if self.signs_id else ()
        return tuple(place.name for place in (self.signature, self.timestamp, *signed_id) if isinstance(place, Header))

    @cached_property
    def kept_headers(self) -> frozenset[str]:
        """The headers that are stored by their names."""
        places = parts_of((*self.event_type, *self.delivery_id))
        return frozenset({"content-type", "content-encoding", "user-agent", *(place.name for place in places if isinstance(place, Header))})
