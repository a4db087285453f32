"""Owns the golden vectors: signed requests whose signatures somebody else computed, read from `tests/vectors/<scheme>.json`.

from            who published it, or how it was computed          published    whether it is the provider's own
secret          as an operator would write it into its file       settings     of the source, beside scheme and secrets
                    or secret_hex where it is no text
body, headers   of the request; its query and method too            at           when it was signed, unix seconds
signs           false where the sender signs another spelling than we would choose
other_secret    a wrong one of the same form, where none can be made up
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from ingest.headers import Headers
from ingest.keys import Key, prepare
from ingest.request import Request, member_of, with_member
from ingest.scheme import Header, Scheme
from ingest.settings import SourceSettings
from ingest.signatures import Proof, verify
from ingest.sources import scheme_of

FOLDER = Path(__file__).parents[1] / "vectors"


@dataclass(frozen=True, slots=True, kw_only=True)
class Vector:
    """One signed request."""

    scheme: Scheme
    origin: str
    published: bool
    secret: bytes
    body: bytes
    headers: tuple[tuple[str, str], ...]
    at: datetime
    public_url: str = ""
    query: str = ""
    method: str = "POST"
    signs: bool = True
    other_secret: str = ""
    later: timedelta = field(default=timedelta())

    @property
    def key(self) -> Key:
        return prepare(self.scheme, secret=self.secret, at="vector")

    @property
    def request(self) -> Request:
        raw = [(name.encode(), value.encode("latin-1")) for name, value in self.headers]
        return Request(Headers(raw), self.body, method=self.method, query=self.query, public_url=self.public_url)

    @property
    def signature(self) -> str:
        place = self.scheme.signature
        return dict(self.headers)[place.name] if isinstance(place, Header) else str(member_of(json.loads(self.body), place.path))

    def verified(self, *keys: Key) -> Proof:
        return verify(self.scheme, request=self.request, secrets=keys or (self.key,), now=self.at + self.later)

    @property
    def is_believed(self) -> bool:
        return self.verified().key_id == self.key.key_id

    def with_signature(self, text: str) -> Vector:
        place = self.scheme.signature
        if isinstance(place, Header):
            return self.with_header(place.name, text)
        return replace(self, body=with_member(self.body, path=place.path, value=text))

    def with_header(self, name: str, value: str) -> Vector:
        return replace(self, headers=(*((known, text) for known, text in self.headers if known != name), (name, value)))


def vectors_of(path: Path) -> list[Vector]:
    return vectors_in(json.loads(path.read_text()))


def vectors_in(page: dict[str, Any], *, scheme: Scheme | None = None) -> list[Vector]:
    """Of the scheme that the page names; `scheme` is its record where the table has none."""
    return [_vector(page["scheme"], one, scheme=scheme) for one in page["vectors"]]


def all_vectors() -> list[Vector]:
    return [vector for path in sorted(FOLDER.glob("*.json")) for vector in vectors_of(path)]


def _vector(name: str, one: dict[str, Any], *, scheme: Scheme | None) -> Vector:
    settings = SourceSettings(scheme=name, **one.get("settings", {}))
    return Vector(
        scheme=scheme or scheme_of(settings, name="vector", at="vector"),
        origin=one["from"],
        published=one["published"],
        secret=bytes.fromhex(one["secret_hex"]) if "secret_hex" in one else one["secret"].encode(),
        body=one["body"].encode(),
        headers=tuple(one["headers"].items()),
        at=datetime.fromtimestamp(one.get("at", 1_700_000_000), tz=UTC),
        public_url=settings.public_url or "",
        query=one.get("query", ""),
        method=one.get("method", "POST"),
        signs=one.get("signs", True),
        other_secret=one.get("other_secret", ""),
    )
