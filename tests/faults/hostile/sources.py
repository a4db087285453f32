"""Owns the sources that are attacked: one of every scheme that can be signed here, and which of its headers prove anything."""

from __future__ import annotations

import base64
import itertools
import secrets
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import yaml

from infra.settings import load_settings
from ingest.headers import Headers
from ingest.posting import SignedPost, sign_post
from ingest.request import Request
from ingest.samples import sample
from ingest.schemes import SCHEMES
from ingest.signatures import verify
from ingest.sources import Source, Sources
from schemas.errors import ConfigError, Refused

TENANT = "demo"
MAX_BODY_BYTES = 50_000
GENERIC = {"header": "X-Signature", "encoding": "base64", "delivery_id_header": "X-Delivery", "event_type_header": "X-Type"}
EVENT_TYPE = "push"
SECRETS: tuple[Callable[[bytes], str], ...] = (
    lambda raw: raw.hex(),
    lambda raw: "whsec_" + base64.b64encode(raw).decode(),
    lambda raw: "user:" + raw.hex(),
)
"""How secrets look: the first form that a scheme takes is used."""


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
    def path(self) -> str:
        return f"/hooks/{self.source.tenant}/{self.source.name}"

    def signed(self, body: bytes | None = None, *, number: int = 0) -> SignedPost:
        return signed_or_sample(self.source, body=body, number=number)

    def forged(self, body: bytes | None = None, *, number: int = 0) -> SignedPost:
        return signed_or_sample(self.forger, body=body, number=number)


def signed_or_sample(source: Source, *, body: bytes | None, number: int) -> SignedPost:
    """Where the scheme signs within the body, not every body has room for it: then an example takes its place."""
    try:
        return signed_by(source, body=body, number=number)
    except (ConfigError, Refused):
        return signed_by(source, body=None, number=number)


def signed_by(source: Source, *, body: bytes | None, number: int = 0, now: datetime | None = None) -> SignedPost:
    content = sample(source.scheme, event_type=EVENT_TYPE, number=number) if body is None else body
    return sign_post(source, event_type=EVENT_TYPE, body=content, now=now or datetime.now(UTC))


def write_home(home: Path, *, prefix: str) -> Path:
    """A home whose tenant has a source of every scheme that a secret of ours can sign for; each secret is a file, a stranger's too."""
    home.mkdir(mode=0o700, parents=True, exist_ok=True)
    (home / "secrets").mkdir(mode=0o700, exist_ok=True)
    found = {name: described for name in SCHEMES if (described := _set_up(home, name=name))}
    found["packed"] = {**found["github"], "encodings": ["gzip"]}
    _write_settings(home, sources=found, prefix=prefix)
    return home


def _set_up(home: Path, *, name: str) -> dict[str, Any] | None:
    """None for a scheme whose provider signs with a key that only it has."""
    described = {"scheme": name, "secrets": [f"file:secrets/{name}"], "max_body_bytes": MAX_BODY_BYTES}
    for wanted, more in itertools.product(SECRETS, ({}, GENERIC, {"public_url": "https://hooks.example.com"})):
        for whose in (name, f"{name}-of-a-stranger"):
            path = home / "secrets" / whose
            path.touch(mode=0o600)
            path.write_text(wanted(secrets.token_bytes(32)))
        _write_settings(home, sources={"one": {**described, **more}})
        with suppress(ConfigError):
            signed_by(Sources.from_settings(load_settings(home)).find(TENANT, source="one"), body=None)
            return {**described, **more}
    return None


def _write_settings(home: Path, *, sources: dict[str, Any], prefix: str = "t:") -> None:
    ingest = {"head_timeout_ms": 1000, "body_timeout_ms": 1000}
    content = {"log": {"prefix": prefix}, "ingest": ingest, "tenants": {TENANT: {"sources": sources}}}
    (home / "hooklake.yaml").write_text(yaml.safe_dump(content))


def targets_in(home: Path) -> list[Target]:
    return [
        _target(source, stranger=_stranger(source, home=home)) for source in Sources.from_settings(load_settings(home)).by_route.values()
    ]


def _stranger(source: Source, *, home: Path) -> Source:
    """The same source with a secret that the receiver does not know."""
    known = (home / "secrets" / source.scheme.name).read_bytes()
    path = home / "secrets" / source.scheme.name
    try:
        path.write_bytes((home / "secrets" / f"{source.scheme.name}-of-a-stranger").read_bytes())
        forger = Sources.from_settings(load_settings(home)).find(source.tenant, source=source.name)
    finally:
        path.write_bytes(known)
    return forger


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
