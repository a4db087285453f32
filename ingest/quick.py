"""Owns reading a request without waiting for anything: whether it is believed, and what it says about its event.

    Thorough    by the engine (`signatures.py`, `describe.py`), whatever the scheme
    Quick       where a header signs the body and headers name it, as GitHub's do: what can be known before a request comes is worked
                out at start. It takes what the engine would take, and says the same of it; a test holds the two against each other

Whatever is not as usual they leave (None), and so everything that is to be refused: the long way has an answer for it.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple, Protocol

from ingest.describe import LONGEST_NAME, Description, describe, is_action, is_delivery_id, is_text, is_type
from ingest.headers import Headers
from ingest.keys import HmacKey
from ingest.members import Members
from ingest.receive import asked
from ingest.request import Request
from ingest.scheme import BODY_ONLY, Header, Scheme
from ingest.signatures import Proof, verify
from ingest.sources import Source
from schemas.errors import Refused

JSON_TYPES = {text.encode(): text for text in ("application/json", "application/json; charset=utf-8", "application/json;charset=utf-8")}
UNUSUAL = frozenset({b"transfer-encoding", b"content-encoding", b"upgrade"})
"""What the long way has an opinion about, as about a length of more digits than this."""
LONGEST_LENGTH = 12
MOST_REMEMBERED = 1024
"""Names and types that senders chose, so that they are worked out once: bounded, since a sender may choose ever new ones."""


class Read(NamedTuple):
    """What a request turned out to be."""

    proof: Proof
    described: Description


class Reader(Protocol):
    """Reads the requests of one source."""

    def read(self, headers: dict[bytes, bytes], body: bytes, *, now: datetime) -> Read | None:
        """None leaves the request to the long way. No header of it stands there twice."""


def reader_of(source: Source) -> Reader | None:
    """None for a source of whose requests more is asked than to be read."""
    is_taken_whole = not (source.encodings or source.splits or source.schemas or source.rate or source.answering.confirms)
    # What is not taken here is verified again on the long way, and a public key's signature is dear: nobody shall have it twice.
    if not is_taken_whole or source.certificates is not None or source.is_unsigned or source.scheme.uses_public_key:
        return None
    return Quick.of(source) or Thorough(source)


class Thorough:
    """By the engine."""

    def __init__(self, source: Source) -> None:
        self._source = source

    def read(self, headers: dict[bytes, bytes], body: bytes, *, now: datetime) -> Read | None:
        if _has_unusual(headers) or _is_long(headers):
            return None
        source, request = self._source, Request(Headers(headers.items()), body, public_url=self._source.public_url)
        try:
            proof = verify(source.scheme, request=request, secrets=source.secrets, now=now)
            is_question = source.answering.handshake != "none" and asked(source, plain=request, proof=proof) is not None
            return None if is_question else Read(proof, describe(source.scheme, request=request))
        except Refused:
            return None


class Quick:
    """By what was worked out at start."""

    def __init__(
        self, scheme: Scheme, *, signature: Header, event_type: Header, delivery_id: Header, keys: Sequence[HmacKey], members: Members
    ) -> None:
        self._scheme = scheme
        self._keys = keys
        self._signature, self._prefix = signature.name.encode(), scheme.prefix.encode()
        self._event_type, self._delivery_id = event_type.name.encode(), delivery_id.name.encode()
        self._members = members
        self._types: dict[tuple[bytes, str], str] = {}
        self._kept: dict[tuple[bytes, ...], list[tuple[bytes, str]]] = {}
        """By the names of a request's headers, none of them unusual, those that are stored: a sender's requests all have the same."""

    @classmethod
    def of(cls, source: Source) -> Quick | None:
        """None for a source whose requests are not so simple."""
        scheme, places = source.scheme, (source.scheme.signature, *source.scheme.event_type, *source.scheme.delivery_id)
        keys = [key for key in source.secrets if isinstance(key, HmacKey)]
        is_plain = scheme.signed is BODY_ONLY and scheme.items is None and scheme.timestamp is None and "." not in scheme.action
        if not is_plain or scheme.is_batch or scheme.is_form or source.answering.handshake != "none":
            return None
        headers = [place for place in places if isinstance(place, Header)]
        if len(headers) != 3 or len(places) != 3 or len(keys) != len(source.secrets):
            return None
        try:
            members = Members(scheme.action, scheme.repository, scheme.key)
        except ValueError:
            return None
        return cls(scheme, signature=headers[0], event_type=headers[1], delivery_id=headers[2], keys=keys, members=members)

    def read(self, headers: dict[bytes, bytes], body: bytes, *, now: datetime) -> Read | None:  # noqa: ARG002 - it signs no time
        content_type = JSON_TYPES.get(headers.get(b"content-type", b""))
        kept = self._kept.get(tuple(headers))
        if content_type is None or (kept is None and _has_unusual(headers)) or _is_long(headers):
            return None
        proof = self._proof(headers, body)
        if proof is None:
            return None
        try:
            action, repository, key = self._members.read(body)
        except ValueError:
            return None
        event_type, delivery_id = self._type_of(headers, action), headers.get(self._delivery_id, b"").decode("latin-1")
        if not (event_type and is_delivery_id(delivery_id) and _is_name(repository) and _is_name(key)):
            return None
        stored = {name: headers[raw].decode("latin-1") for raw, name in (self._learnt(headers) if kept is None else kept)}
        return Read(proof, Description(event_type, repository, delivery_id, key, content_type, stored))

    def _proof(self, headers: dict[bytes, bytes], body: bytes) -> Proof | None:
        given = headers.get(self._signature, b"")
        if not given.startswith(self._prefix):
            return None
        matched, signature = "", given[len(self._prefix) :]
        for key in self._keys:  # all of them, as the engine does
            if key.signed(body, signature):
                matched = key.key_id
        return Proof(matched, {self._scheme.proof_headers[0]: given.decode("latin-1")}) if matched else None

    def _type_of(self, headers: dict[bytes, bytes], action: str) -> str:
        """Empty where the engine has to decide."""
        known = headers.get(self._event_type, b""), action
        found = self._types.get(known)
        return self._typed(*known) if found is None else found

    def _typed(self, raw: bytes, action: str) -> str:
        name, namespace = raw.decode("latin-1"), self._scheme.namespace
        refined = f".{action}" if is_action(action) else ""
        event_type = f"{namespace}.{name}{refined}" if is_type(name) else ""
        if len(self._types) < MOST_REMEMBERED and len(raw) + len(refined) < LONGEST_NAME and (refined or not action):
            self._types[raw, action] = event_type
        return event_type

    def _learnt(self, headers: dict[bytes, bytes]) -> list[tuple[bytes, str]]:
        names = [(raw, raw.decode("latin-1")) for raw in headers]
        kept = [(raw, name) for raw, name in names if name in self._scheme.kept_headers or name.startswith(self._scheme.stored_headers)]
        if len(self._kept) < MOST_REMEMBERED:
            self._kept[tuple(headers)] = kept
        return kept


def _has_unusual(headers: dict[bytes, bytes]) -> bool:
    return not UNUSUAL.isdisjoint(headers)


def _is_long(headers: dict[bytes, bytes]) -> bool:
    return len(headers.get(b"content-length", b"")) > LONGEST_LENGTH


def _is_name(text: str) -> bool:
    """False where the engine has to decide."""
    return len(text) <= LONGEST_NAME and is_text(text)
