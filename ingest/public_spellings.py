"""Owns how public keys are written: which texts are one, and so no secret that two could share. Pure.

A look at the first bytes is enough, so that no source pays for a library that it does not verify with. The bare bytes of a key, as
Discord's 64 hex digits, look like any secret: nothing can tell those.
"""

from __future__ import annotations

import binascii
import re

_PLAIN = ("whpk_", "-----BEGIN", "ssh-ed25519 ", "ssh-rsa ", "ecdsa-sha2-")
_SEQUENCES = ((b"\x30", 2), (b"\x30\x81", 3), (b"\x30\x82", 4))
"""How a DER SEQUENCE begins, before its length, and at which byte its first member stands."""
_ALGORITHM = re.compile(rb"\x30[\x02-\x7f]\x06", re.DOTALL)
"""A SEQUENCE that begins with an OBJECT IDENTIFIER."""


def is_public_key(text: str) -> bool:
    """Whether it is one in PEM, in OpenSSH's form, as Standard Webhooks write it, or in base64 of a SubjectPublicKeyInfo."""
    return text.lstrip().startswith(_PLAIN) or _is_key_info(_from_base64(text))


def _from_base64(text: str) -> bytes:
    """Empty where it is none; line breaks and missing padding are of no account, as people copy keys."""
    joined = "".join(text.split()).rstrip("=")
    try:
        return binascii.a2b_base64(joined + "=" * (-len(joined) % 4), strict_mode=True)
    except ValueError:
        return b""


def _is_key_info(der: bytes) -> bool:
    # With the length, no random secret of those that are ever drawn is taken for a key.
    return any(
        der.startswith(mark) and int.from_bytes(der[len(mark) : first]) == len(der) - first and _ALGORITHM.match(der, first)
        for mark, first in _SEQUENCES
    )
