"""Owns the private keys of senders that are verified with a public one: made for one home, and signing as their providers do."""

from __future__ import annotations

import base64
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.asymmetric.ec import ECDSA, SECP256R1, EllipticCurvePrivateKey, generate_private_key
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.asymmetric.padding import PKCS1v15
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
    load_pem_private_key,
)

from ingest.keys import Key
from ingest.scheme import Scheme

AnyKey = Ed25519PrivateKey | EllipticCurvePrivateKey | rsa.RSAPrivateKey


@dataclass(frozen=True, slots=True)
class PrivateKey:
    """A key of a sender, whose public half is what its source has as its secret."""

    public: Key
    sign_bytes: Callable[[bytes], bytes] = field(repr=False)
    is_hex: bool

    @property
    def key_id(self) -> str:
        return self.public.key_id

    def made(self, signatures: Sequence[bytes], contents: Sequence[bytes]) -> bool:
        return self.public.made(signatures, contents)

    def sign(self, content: bytes) -> str:
        signature = self.sign_bytes(content)
        return signature.hex() if self.is_hex else base64.b64encode(signature).decode()


def private_key(scheme: Scheme, *, public: Key, pem: bytes) -> PrivateKey:
    key = load_pem_private_key(pem, password=None)
    assert isinstance(key, AnyKey)
    return PrivateKey(public, _signing(key, is_sha1=scheme.algorithm == "rsa-sha1"), scheme.encoding == "hex")


def _signing(key: AnyKey, *, is_sha1: bool) -> Callable[[bytes], bytes]:
    if isinstance(key, Ed25519PrivateKey):
        return key.sign
    if isinstance(key, EllipticCurvePrivateKey):
        return lambda content: key.sign(content, ECDSA(hashes.SHA256()))
    return lambda content: key.sign(content, PKCS1v15(), hashes.SHA1() if is_sha1 else hashes.SHA256())


def made_pair(scheme: Scheme) -> tuple[bytes, bytes]:
    """What an operator is given, in the form that the scheme's secrets have, and the private key as a PEM file."""
    key = _MADE[scheme.algorithm]()
    pem = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    return _public_half(key, is_hex=scheme.secret_form == "ed25519-hex"), pem


def _public_half(key: AnyKey, *, is_hex: bool) -> bytes:
    if isinstance(key, Ed25519PrivateKey):
        raw = key.public_key().public_bytes_raw()
        return raw.hex().encode() if is_hex else b"whpk_" + base64.b64encode(raw)
    if isinstance(key, EllipticCurvePrivateKey):
        return base64.b64encode(key.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo))
    return _certificate(key)


def _certificate(key: rsa.RSAPrivateKey) -> bytes:
    """Signed by itself: where a source has a certificate of its own, nobody asks who made it."""
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "sns.amazonaws.com")])
    begins_at = datetime.now(UTC) - timedelta(days=1)
    builder = x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number(), begins_at, begins_at + timedelta(days=9))
    return builder.sign(key, hashes.SHA256()).public_bytes(Encoding.PEM)


def _rsa() -> rsa.RSAPrivateKey:
    return rsa.generate_private_key(public_exponent=65537, key_size=2048)


_MADE: dict[str, Callable[[], AnyKey]] = {
    "ed25519": Ed25519PrivateKey.generate,
    "ecdsa-p256": lambda: generate_private_key(SECP256R1()),
    "rsa-sha256": _rsa,
    "rsa-sha1": _rsa,
}
