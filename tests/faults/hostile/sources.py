"""Owns the sources that are attacked: one of every scheme, and some with settings of their own; and what proves their requests."""

from __future__ import annotations

import base64
import json
import secrets
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import yaml

from infra.settings import load_settings
from ingest.headers import Headers
from ingest.posting import SignedPost, sign_post
from ingest.request import Request
from ingest.scheme import Part, Scheme
from ingest.schemes import SCHEMES
from ingest.signatures import verify
from ingest.sources import Source, Sources
from schemas.errors import ConfigError, Refused
from tests.faults.hostile.genuine import EVENT_TYPE, TOPIC, genuine_body, has_number, notified, with_text
from tests.faults.hostile.private_keys import made_pair, private_key

TENANT = "demo"
MAX_BODY_BYTES = 50_000
GENERIC = {"header": "X-Signature", "encoding": "base64", "delivery_id_header": "X-Delivery", "event_type_header": "X-Type"}
SECRETS: tuple[Callable[[bytes], str], ...] = (
    lambda raw: raw.hex(),
    lambda raw: "whsec_" + base64.b64encode(raw).decode(),
    lambda raw: "user:" + raw.hex(),
)
"""How shared secrets look: the first form that a scheme takes is used."""
MORE: tuple[dict[str, Any], ...] = ({}, GENERIC, {"public_url": "https://hooks.example.com"}, {"topics": [TOPIC]})
"""What a source says beside its scheme: the first that a scheme takes is used."""
VERIFY_TOKEN = "a-verify-token"
NUMBERED = {"type": "object", "required": ["number"], "additionalProperties": {"$ref": "#/$defs/any"}, "$defs": {"any": {
    "type": ["object", "array", "string", "number", "boolean", "null"],
    "items": {"$ref": "#/$defs/any"}, "additionalProperties": {"$ref": "#/$defs/any"},
}}}  # fmt: skip
"""A schema that looks at all of a body, however deep, and demands one member of it."""
VARIANTS: Mapping[str, tuple[str, dict[str, Any]]] = {
    "packed": ("github", {"encodings": ["gzip"]}),
    "in-parts": ("generic", {"split": True}),
    "numbered": ("generic", {"schemas": {"*": "file:schemas/numbered.json"}, "on_mismatch": "refuse"}),
    "asking": ("generic", {"body": "json", "handshake": "sign-token"}),
    "asking-once": ("meta", {"verify_token": "file:secrets/verify"}),
}
"""Sources beside those that are named after their scheme: the scheme's source, whose secret they share, and what they add to it."""


@dataclass(frozen=True, slots=True)
class Target:
    """A source as its sender knows it, and as a stranger does, who has another secret."""

    source: Source
    forger: Source
    proving: frozenset[str]
    """The headers without which nothing verifies."""
    signs_body: bool
    """False where a signature does not stand for every byte of it, as where the sender only shows a token."""

    @property
    def signs_members(self) -> bool:
        """Of a JSON body only some, as Amazon SNS does."""
        return Part.NOTIFICATION in self.source.scheme.signed

    @property
    def path(self) -> str:
        return f"/hooks/{self.source.tenant}/{self.source.name}"

    def signed(self, body: bytes | None = None, *, number: int = 0) -> SignedPost:
        return signed_or_sample(self.source, body=body, number=number)

    def forged(self, body: bytes | None = None, *, number: int = 0) -> SignedPost:
        return signed_or_sample(self.forger, body=body, number=number)

    def storable(self, body: bytes) -> bytes | None:
        """The body, unless the source is to refuse it even if it is signed."""
        return body if self.source.schemas is None or has_number(body) else None

    def stands_for(self, body: bytes, *, sent: bytes) -> bool:
        """Whether the signature of the one body is that of the other, too."""
        return notified(body) == notified(sent) if self.signs_members else not self.signs_body


def signed_or_sample(source: Source, *, body: bytes | None, number: int) -> SignedPost:
    """Where the scheme signs within the body, not every body has room for it: then an example takes its place, with the body as a text."""
    try:
        return signed_by(source, body=body, number=number)
    except (ConfigError, Refused):
        return signed_by(source, body=with_text(body, scheme=source.scheme, number=number), number=number)


def signed_by(source: Source, *, body: bytes | None, number: int = 0, now: datetime | None = None) -> SignedPost:
    content = genuine_body(source.scheme, number=number) if body is None else body
    return sign_post(source, event_type=EVENT_TYPE, body=content, now=now or datetime.now(UTC))


def write_home(home: Path, *, prefix: str) -> Path:
    """A home whose tenant has a source of every scheme; each secret is a file, and so are a stranger's, and private keys."""
    for folder in ("", "secrets", "private", "schemas"):
        (home / folder).mkdir(mode=0o700, parents=True, exist_ok=True)
    found = {name: _set_up(home, scheme=scheme) for name, scheme in SCHEMES.items()}
    _keep(home / "secrets" / "verify", VERIFY_TOKEN.encode())
    (home / "schemas" / "numbered.json").write_text(json.dumps(NUMBERED))
    found |= {name: {**found[base], **more} for name, (base, more) in VARIANTS.items()}
    _write_settings(home, sources=found, prefix=prefix)
    return home


def _set_up(home: Path, *, scheme: Scheme) -> dict[str, Any]:
    described = {"scheme": scheme.name, "secrets": [f"file:secrets/{scheme.name}"], "max_body_bytes": MAX_BODY_BYTES}
    # None: there is one form, the one that a public key has in this scheme.
    for form in (None,) if scheme.uses_public_key else SECRETS:
        for whose in (scheme.name, f"{scheme.name}-of-a-stranger"):
            _keep_secret(home, whose=whose, scheme=scheme, form=form)
        for more in MORE:
            _write_settings(home, sources={"one": {**described, **more}})
            with suppress(ConfigError):
                signed_by(_sender(TENANT, name="one", whose=scheme.name, home=home), body=None)
                return {**described, **more}
    raise AssertionError(f"scheme {scheme.name} takes none of SECRETS with any of MORE, and would not be attacked: add what it needs")


def _keep_secret(home: Path, *, whose: str, scheme: Scheme, form: Callable[[bytes], str] | None) -> None:
    if form is None:
        public, private = made_pair(scheme)
        _keep(home / "private" / whose, private)
    else:
        public = form(secrets.token_bytes(32)).encode()
    _keep(home / "secrets" / whose, public)


def _keep(path: Path, content: bytes) -> None:
    path.touch(mode=0o600)
    path.write_bytes(content)


def _write_settings(home: Path, *, sources: dict[str, Any], prefix: str = "t:") -> None:
    ingest = {"head_timeout_ms": 1000, "body_timeout_ms": 1000}
    content = {"log": {"prefix": prefix}, "ingest": ingest, "tenants": {TENANT: {"sources": sources}}}
    (home / "hooklake.yaml").write_text(yaml.safe_dump(content))


def targets_in(home: Path) -> list[Target]:
    routes = Sources.from_settings(load_settings(home)).by_route.values()
    return [
        _target(_sender(one.tenant, name=one.name, whose=one.scheme.name, home=home), stranger=_stranger(one, home=home)) for one in routes
    ]


def _stranger(source: Source, *, home: Path) -> Source:
    """The same source with a secret that the receiver does not know."""
    path, whose = home / "secrets" / source.scheme.name, f"{source.scheme.name}-of-a-stranger"
    known = path.read_bytes()
    try:
        path.write_bytes((home / "secrets" / whose).read_bytes())
        return _sender(source.tenant, name=source.name, whose=whose, home=home)
    finally:
        path.write_bytes(known)


def _sender(tenant: str, *, name: str, whose: str, home: Path) -> Source:
    """The source with what its sender signs with, which is not always what the receiver has."""
    source = Sources.from_settings(load_settings(home)).find(tenant, source=name)
    if not source.scheme.uses_public_key:
        return source
    key = private_key(source.scheme, public=source.secrets[0], pem=(home / "private" / whose).read_bytes())
    return replace(source, secrets=(key,))


def _target(source: Source, *, stranger: Source) -> Target:
    now = datetime.now(UTC)
    post = signed_by(source, body=None, number=1, now=now)
    without = {name: {key: value for key, value in post.headers.items() if key != name} for name in post.headers}
    proving = frozenset(name for name, rest in without.items() if not verifies(source, headers=rest, body=post.body, now=now))
    # Some look at the meaning of a body, or at a part of it, and some at none: then other bytes verify as well.
    others = (post.body + b" ", post.body + b"&")
    signs_body = not any(verifies(source, headers=post.headers, body=other, now=now) for other in others)
    return Target(source, stranger, proving, signs_body)


def verifies(source: Source, *, headers: dict[str, str], body: bytes, now: datetime) -> bool:
    raw = [(name.encode(), value.encode()) for name, value in headers.items()]
    request = Request(Headers(raw), body, public_url=source.public_url)
    try:
        verify(source.scheme, request=request, secrets=source.secrets, now=now)
    except Refused:
        return False
    return True
