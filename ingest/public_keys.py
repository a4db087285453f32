"""Owns public keys: signatures that only their sender can make. The only module that imports cryptography.

A key is parsed once, at start; a wrong one is a ConfigError there and never a question while a request waits.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import NoReturn

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric.ec import ECDSA, SECP256R1, EllipticCurvePublicKey
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from cryptography.hazmat.primitives.asymmetric.padding import PKCS1v15
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey

from ingest.keys import canonical, only_the_provider_signs
from ingest.scheme import Encoding, Scheme
from schemas.errors import ConfigError

LEAST_RSA_BITS = 2048

Check = Callable[[bytes, bytes], object]
"""Called with signature and content; raises InvalidSignature."""


@dataclass(frozen=True, slots=True)
class PublicKey:
    """A key of the sender that anybody may know."""

    key_id: str
    scheme: str
    encoding: Encoding
    check: Check = field(repr=False)

    def made(self, signatures: Sequence[bytes], contents: Sequence[bytes]) -> bool:
        found = False
        for text in signatures:
            try:
                signature = canonical(text, encoding=self.encoding)
            except ValueError:
                continue
            for content in contents:
                found |= self._made_one(signature, content)
        return found

    def _made_one(self, signature: bytes, content: bytes) -> bool:
        try:
            self.check(signature, content)
        except InvalidSignature:
            return False
        return True

    def sign(self, content: bytes) -> NoReturn:  # noqa: ARG002
        raise only_the_provider_signs(self.scheme)


def public_key(scheme: Scheme, *, text: bytes, key_id: str, at: str) -> PublicKey:
    """Raises ConfigError when `text` is no such key, or too weak a one."""
    try:
        check = _CHECKS[scheme.algorithm](text)
    except (ValueError, UnicodeDecodeError) as error:
        raise ConfigError(f"{at} is no {_FORMS[scheme.secret_form]}, as scheme {scheme.name} needs; nothing would verify") from error
    return PublicKey(key_id, scheme.name, scheme.encoding, check)


def certificate_ends_at(text: bytes) -> datetime:
    """Until when a certificate, which `public_key` has read, is valid."""
    return x509.load_pem_x509_certificate(text).not_valid_after_utc


def _ed25519(text: bytes) -> Check:
    # Hex has 64 characters, base64 of 32 bytes 44: one cannot be taken for the other.
    is_hex = len(text) == 64
    value = canonical(text.removeprefix(b"whpk_"), encoding="hex" if is_hex else "base64")
    return Ed25519PublicKey.from_public_bytes(value).verify


def _ecdsa(text: bytes) -> Check:
    key = serialization.load_der_public_key(canonical(text, encoding="base64"))
    if not isinstance(key, EllipticCurvePublicKey) or not isinstance(key.curve, SECP256R1):
        raise ValueError("it is a key of another kind")
    algorithm = ECDSA(hashes.SHA256())
    return lambda signature, content: key.verify(signature, content, algorithm)


def _rsa(hashing: hashes.HashAlgorithm) -> Callable[[bytes], Check]:
    def parsed(text: bytes) -> Check:
        key = x509.load_pem_x509_certificate(text).public_key()
        if not isinstance(key, RSAPublicKey) or key.key_size < LEAST_RSA_BITS:
            raise ValueError("it is a key of another kind, or a short one")
        return lambda signature, content: key.verify(signature, content, PKCS1v15(), hashing)

    return parsed


_CHECKS: dict[str, Callable[[bytes], Check]] = {
    "ed25519": _ed25519,
    "ecdsa-p256": _ecdsa,
    "rsa-sha256": _rsa(hashes.SHA256()),
    "rsa-sha1": _rsa(hashes.SHA1()),  # What AWS SNS signs with unless its topic is told otherwise
}
_FORMS = {
    "ed25519-base64": "Ed25519 public key in base64 (`whpk_...`)",
    "ed25519-hex": "Ed25519 public key of 64 hex digits",
    "spki-base64": "ECDSA P-256 public key in base64, without the lines of a PEM file",
    "certificate": "X.509 certificate in PEM with an RSA key of at least 2048 bits",
}
