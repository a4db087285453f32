"""Owns reading a request without waiting for anything: whether it is believed, and what it says about its event.

    Thorough    by the engine (`signatures.py`, `describe.py`), whatever the scheme
    Quick       where a header signs the body and headers name it, as GitHub's do: what can be known before a request comes is worked
                out at start. It takes what the engine would take, and says the same of it; a test holds the two against each other

Whatever is not as usual they leave (None), and so everything that is to be refused: the long way has an answer for it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
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

Now = Callable[[], datetime]
"""Few schemes sign a time, and for the others nobody need look at the clock."""


class Read(NamedTuple):
    """What a request turned out to be: a `Proof` and a `Description` in one, since one is made for every request."""

    key_id: str
    signature_headers: dict[str, str]
    signed_url: str
    event_type: str
    repository: str
    delivery_id: str
    key: str
    content_type: str
    headers: dict[str, str]

    @classmethod
    def of(cls, proof: Proof, described: Description) -> Read:
        return cls(proof.key_id, proof.signature_headers, proof.signed_url, *described)

    @property
    def proof(self) -> Proof:
        """Why it is believed."""
        return Proof(*self[:3])

    @property
    def described(self) -> Description:
        """What it says about its event."""
        return Description(*self[3:])


class Reader(Protocol):
    """Reads the requests of one source."""

    def read(self, headers: dict[bytes, bytes], body: bytes, *, now: Now) -> Read | None:
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

    def read(self, headers: dict[bytes, bytes], body: bytes, *, now: Now) -> Read | None:
        if _has_unusual(headers) or _is_long(headers):
            return None
        source, request = self._source, Request(Headers(headers.items()), body, public_url=self._source.public_url)
        try:
            proof = verify(source.scheme, request=request, secrets=source.secrets, now=now())
            is_question = source.answering.handshake != "none" and asked(source, plain=request, proof=proof) is not None
            return None if is_question else Read.of(proof, describe(source.scheme, request=request))
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
        self._proof_header = scheme.proof_headers[0]
        self._event_type, self._delivery_id = event_type.name.encode(), delivery_id.name.encode()
        self._members = members
        self._types: dict[tuple[bytes, str], str] = {}
        self._kept: dict[tuple[bytes, ...], list[tuple[bytes, str]]] = {}
        """By the names of a request's headers, none of them unusual, those that are stored: a sender's requests all have the same."""

    @classmethod
    def of(cls, source: Source) -> Quick | None:
        """None for a source whose requests are not so simple."""
        # Where the first place for the delivery id has none, the engine looks at the others.
        scheme, places = source.scheme, (source.scheme.signature, *source.scheme.event_type, *source.scheme.delivery_id[:1])
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

    def read(self, headers: dict[bytes, bytes], body: bytes, *, now: Now) -> Read | None:  # noqa: ARG002 - it signs no time
        header = headers.get
        content_type, kept = JSON_TYPES.get(header(b"content-type", b"")), self._kept.get(tuple(headers))
        if content_type is None or (kept is None and _has_unusual(headers)) or _is_long(headers):
            return None
        given = header(self._signature, b"")
        key_id = self._signer(given, body)
        if not key_id:
            return None
        try:
            action, repository, key = self._members.read(body)
        except ValueError:
            return None
        named, delivery_id = (header(self._event_type, b""), action), str(header(self._delivery_id, b""), "latin-1")
        event_type = self._types.get(named) or self._typed(*named)
        if not (event_type and is_delivery_id(delivery_id) and _is_name(repository) and (key == repository or _is_name(key))):
            return None
        stored = {name: str(headers[raw], "latin-1") for raw, name in (self._learnt(headers) if kept is None else kept)}
        proof = {self._proof_header: str(given, "latin-1")}
        return Read(key_id, proof, "", event_type, repository, delivery_id, key, content_type, stored)

    def _signer(self, given: bytes, body: bytes) -> str:
        """The id of the key that made the signature; empty where none did."""
        if not given.startswith(self._prefix):
            return ""
        matched, signature = "", given[len(self._prefix) :]
        for key in self._keys:  # all of them, as the engine does
            if key.signed(body, signature):
                matched = key.key_id
        return matched

    def _typed(self, raw: bytes, action: str) -> str:
        """Empty where the engine has to decide."""
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
