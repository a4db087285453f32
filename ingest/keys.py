"""Owns keys: what a source's secret is decoded to, once at start, and whether it made a signature.

Signatures are compared as they are written: a digest has one spelling here, so that an empty, shortened or respelled one can
never be equal. The comparison takes the same time wherever two texts differ.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Protocol

from ingest.public_spellings import is_public_key
from ingest.scheme import Encoding, Scheme
from schemas.errors import ConfigError

_are_equal = hmac.compare_digest
_WRITERS: Mapping[Encoding, Callable[[bytes], bytes]] = {"hex": binascii.hexlify, "base64": partial(binascii.b2a_base64, newline=False)}


class Key(Protocol):
    """One active secret of a source, or public key of its sender."""

    @property
    def key_id(self) -> str:
        """The name we may write down for it."""

    def made(self, signatures: Sequence[bytes], contents: Sequence[bytes]) -> bool:
        """Whether it made one of the signatures for one of the contents; tries all of both, so that time tells nothing."""

    def sign(self, content: bytes) -> str:
        """The signature of `content` as the header writes it; raises ConfigError where only the sender can make one."""


class HmacKey:
    """A shared secret under an HMAC. Its two padded halves are hashed once, as RFC 2104 suggests, and not for every request."""

    __slots__ = ("_inner", "_outer", "_write", "key_id")

    def __init__(self, value: bytes, *, key_id: str, algorithm: str, encoding: Encoding) -> None:
        self.key_id = key_id
        self._write = _WRITERS[encoding]
        block_bytes = hashlib.new(algorithm).block_size
        short = value if len(value) <= block_bytes else hashlib.new(algorithm, value).digest()
        padded = short.ljust(block_bytes, b"\0")
        self._inner = hashlib.new(algorithm, bytes(byte ^ 0x36 for byte in padded))
        self._outer = hashlib.new(algorithm, bytes(byte ^ 0x5C for byte in padded))

    def made(self, signatures: Sequence[bytes], contents: Sequence[bytes]) -> bool:
        found = False
        for content in contents:
            expected = self._signature(content)
            for signature in signatures:
                found |= hmac.compare_digest(expected, signature)
        return found

    def signed(self, content: bytes, signature: bytes) -> bool:
        """The same as `made`, of one signature and one content."""
        return _are_equal(self._signature(content), signature)

    def sign(self, content: bytes) -> str:
        return self._signature(content).decode()

    def _signature(self, content: bytes) -> bytes:
        inner, outer = self._inner.copy(), self._outer.copy()
        inner.update(content)
        outer.update(inner.digest())
        return self._write(outer.digest())


@dataclass(frozen=True, slots=True)
class PlainHashKey:
    """A shared secret that is hashed in front of the content, as HubSpot did before its third version."""

    value: bytes = field(repr=False)
    key_id: str
    encoding: Encoding

    def made(self, signatures: Sequence[bytes], contents: Sequence[bytes]) -> bool:
        found = False
        for content in contents:
            expected = self.sign(content).encode()
            for signature in signatures:
                found |= hmac.compare_digest(expected, signature)
        return found

    def sign(self, content: bytes) -> str:
        return _written(hashlib.sha256(self.value + content).digest(), self.encoding).decode()


@dataclass(frozen=True, slots=True)
class TokenKey:
    """A secret that the sender shows as it is."""

    value: bytes = field(repr=False)
    key_id: str
    shown: bytes = field(repr=False)
    """What stands in the header: the secret, or for `Basic` its base64."""

    def made(self, signatures: Sequence[bytes], contents: Sequence[bytes]) -> bool:  # noqa: ARG002 - a token covers no content
        # Digests, because tokens have any length, and a comparison of unlike lengths ends at once.
        expected = hashlib.sha256(self.shown).digest()
        found = False
        for signature in signatures:
            found |= hmac.compare_digest(expected, hashlib.sha256(signature).digest())
        return found

    def sign(self, content: bytes) -> str:  # noqa: ARG002
        return self.shown.decode("latin-1")


def prepare(scheme: Scheme, *, secret: bytes, at: str) -> Key:
    """The key that a secret is under this scheme; raises ConfigError, which never shows it."""
    if scheme.uses_public_key:
        # Its library costs memory and time that a receiver without such a source need not spend.
        from ingest.public_keys import public_key

        return public_key(scheme, text=secret, key_id=key_id_of(secret), at=at)
    value = _decoded(scheme, secret=secret, at=at)
    if scheme.algorithm == "token":
        return TokenKey(value, key_id_of(secret), base64.b64encode(value) if scheme.encoding == "base64" else value)
    if scheme.algorithm == "sha256-plain":
        return PlainHashKey(value, key_id_of(secret), scheme.encoding)
    return HmacKey(value, key_id=key_id_of(secret), algorithm=scheme.algorithm, encoding=scheme.encoding)


def only_the_provider_signs(scheme: str) -> ConfigError:
    return ConfigError(
        f"scheme {scheme} is verified with a public key, and only the provider has the private one that signs; nothing was sent"
    )


def key_id_of(secret: bytes) -> str:
    return hmac.digest(secret, b"hooklake key id", "sha256")[:4].hex()


def canonical(text: bytes, *, encoding: Encoding) -> bytes:
    """The bytes that `text` writes in the one spelling we accept; raises ValueError for any other."""
    value = bytes.fromhex(text.decode("ascii")) if encoding == "hex" else binascii.a2b_base64(text, strict_mode=True)
    # Lenient decoders drop spaces and spare bits, so that one signature could be written in many ways.
    if not value or _written(value, encoding) != text:
        raise ValueError(f"this is not how {encoding} is written")
    return value


def _written(value: bytes, encoding: Encoding) -> bytes:
    return _WRITERS[encoding](value)


def _decoded(scheme: Scheme, *, secret: bytes, at: str) -> bytes:
    text = secret.decode("latin-1")
    if is_public_key(text):
        raise ConfigError(f"{at} is a public key, and scheme {scheme.name} shares a secret: everybody could sign with it")
    if scheme.secret_form == "text":
        return secret
    try:
        value = binascii.a2b_base64(text.removeprefix("whsec_"), strict_mode=True)
    except ValueError as error:
        raise ConfigError(f"{at} is not base64, as the secrets of scheme {scheme.name} are (`whsec_...`); nothing would verify") from error
    if len(value) < scheme.least_secret_bytes:
        # What is written is a third longer than the key it stands for.
        raise ConfigError(
            f"{at} stands for {len(value)} bytes, and scheme {scheme.name} needs {scheme.least_secret_bytes}; it can be guessed"
        )
    return value
