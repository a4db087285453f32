"""Owns signatures: whether a body was signed with a secret of its source, and how we would sign it ourselves.

One engine for all schemes. It sees the raw bytes before anybody parses them, and the scheme is the source's: nothing
in a request can choose another algorithm, header or key. Every fault is BadSignature, and all of them look alike to
the sender; the message says for our log which one it was. Only a repeated header is MalformedRequest.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
from collections.abc import Sequence
from dataclasses import dataclass, field

from ingest.headers import Headers
from ingest.schemes import Scheme
from schemas.errors import BadSignature


@dataclass(frozen=True, slots=True)
class Secret:
    """A shared secret and the name we may write down for it."""

    value: bytes = field(repr=False)
    key_id: str

    @classmethod
    def of(cls, value: bytes) -> Secret:
        return cls(value=value, key_id=hmac.digest(value, b"hooklake key id", "sha256")[:4].hex())


def verify(scheme: Scheme, *, headers: Headers, body: bytes, secrets: Sequence[Secret]) -> str:
    """The key id of the secret that signed `body`; raises BadSignature."""
    given = _decode(headers.one(scheme.signature_header), scheme=scheme)
    matched = ""
    for secret in secrets:
        # All secrets are tried, also after a match, so that the time taken does not tell which of them is in use.
        if hmac.compare_digest(_digest(scheme, secret=secret, body=body), given):
            matched = secret.key_id
    if not matched:
        raise BadSignature(f"none of the {len(secrets)} active secrets made the signature in {scheme.signature_header}")
    return matched


def sign(scheme: Scheme, *, body: bytes, secret: Secret) -> str:
    """The value of the scheme's signature header for `body`."""
    return scheme.prefix + _encode(_digest(scheme, secret=secret, body=body), scheme=scheme)


def _digest(scheme: Scheme, *, secret: Secret, body: bytes) -> bytes:
    return hmac.digest(secret.value, body, scheme.algorithm)


def _encode(digest: bytes, *, scheme: Scheme) -> str:
    return digest.hex() if scheme.encoding == "hex" else base64.b64encode(digest).decode()


def _decode(value: str, *, scheme: Scheme) -> bytes:
    """The digest that `value` writes in the one way we accept; raises BadSignature."""
    if not value:
        raise BadSignature(f"there is no {scheme.signature_header} header")
    if not value.startswith(scheme.prefix):
        raise BadSignature(f"{scheme.signature_header} does not begin with {scheme.prefix!r}")
    text = value.removeprefix(scheme.prefix)
    try:
        digest = bytes.fromhex(text) if scheme.encoding == "hex" else binascii.a2b_base64(text, strict_mode=True)
    except ValueError as error:
        raise BadSignature(f"{scheme.signature_header} is not {scheme.encoding}") from error
    # A lenient decoder lets an empty signature through, and lets one signature be written in many ways.
    if len(digest) != hashlib.new(scheme.algorithm).digest_size or _encode(digest, scheme=scheme) != text:
        raise BadSignature(f"{scheme.signature_header} is not one {scheme.algorithm} digest in {scheme.encoding}")
    return digest
