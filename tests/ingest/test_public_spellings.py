"""What is a public key, and what only looks a little like one."""

from __future__ import annotations

import base64

import pytest
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from hypothesis import given
from hypothesis import strategies as st

from ingest.keys import prepare
from ingest.providers_standards import STANDARD_WEBHOOKS
from ingest.public_spellings import is_public_key
from ingest.scheme import Scheme
from ingest.schemes import GITHUB, SCHEMES
from schemas.errors import ConfigError
from tests.ingest.vectors import FOLDER, vectors_of

PUBLIC: dict[str, ec.EllipticCurvePublicKey | ed25519.Ed25519PublicKey | rsa.RSAPublicKey] = {
    "ed25519": ed25519.Ed25519PrivateKey.from_private_bytes(bytes(range(32))).public_key(),
    "p-256": ec.derive_private_key(7, ec.SECP256R1()).public_key(),
    "p-521": ec.derive_private_key(7, ec.SECP521R1()).public_key(),
    "rsa": rsa.RSAPublicNumbers(65537, (1 << 2047) + 1).public_key(),
    "short rsa": rsa.RSAPublicNumbers(65537, (1 << 1023) + 1).public_key(),
}


def spellings() -> dict[str, str]:
    found = {"whpk_": "whpk_1SiA4o9hyqTCpIqC5V9HUakiiaeACeqfZTInDBbOir4="}
    for name, key in PUBLIC.items():
        info = base64.b64encode(key.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)).decode()
        found |= {
            f"{name}, PEM": key.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo).decode(),
            f"{name}, OpenSSH": key.public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH).decode(),
            f"{name}, base64": info,
            f"{name}, base64 in lines": "\n".join(info[at : at + 64] for at in range(0, len(info), 64)),
            f"{name}, base64 without padding": info.rstrip("="),
            f"{name}, base64 after a space": f" {info}\n",
        }
    return found


SHARED: list[Scheme] = [GITHUB, STANDARD_WEBHOOKS, SCHEMES["gitlab-token"], SCHEMES["hubspot-v1"]]


@pytest.mark.parametrize("public", spellings().values(), ids=spellings())
@pytest.mark.parametrize("scheme", SHARED, ids=lambda scheme: scheme.name)
def test_a_public_key_is_no_shared_secret_in_any_spelling_of_its_own(scheme: Scheme, public: str) -> None:
    with pytest.raises(ConfigError, match=r"secrets\[0\] is a public key.*everybody could sign with it") as caught:
        prepare(scheme, secret=public.encode(), at="secrets[0]")

    assert public.strip()[12:24] not in str(caught.value)


def test_sendgrids_key_is_taken_by_sendgrid_and_by_nobody_who_shares_a_secret() -> None:
    secret = vectors_of(FOLDER / "sendgrid.json")[0].secret

    prepare(SCHEMES["sendgrid"], secret=secret, at="secrets[0]")

    assert secret.startswith(b"MFkwEw")
    with pytest.raises(ConfigError, match="is a public key"):
        prepare(GITHUB, secret=secret, at="secrets[0]")


@given(st.binary(min_size=24, max_size=300))
def test_random_secrets_are_taken_however_they_are_written(value: bytes) -> None:
    in_base64 = base64.b64encode(value).decode()

    for text in (in_base64, base64.urlsafe_b64encode(value).decode(), value.hex(), f"whsec_{in_base64}", value.decode("latin-1")):
        assert not is_public_key(text)
    prepare(STANDARD_WEBHOOKS, secret=f"whsec_{in_base64}".encode(), at="secrets[0]")
    prepare(GITHUB, secret=value.hex().encode(), at="secrets[0]")


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("", id="nothing"),
        pytest.param("MA==", id="half a head"),
        pytest.param(base64.b64encode(b"\x30\x05\x30\x03\x02\x01\x00").decode(), id="a sequence that begins with a number"),
        pytest.param(base64.b64encode(b"\x30\x03\x02\x01\x00").decode(), id="a number within a sequence"),
        pytest.param(base64.b64encode(b"\x30\x7f\x30\x03\x06\x01\x00").decode(), id="a length that is another's"),
        pytest.param("ssh-rsa", id="a word of one"),
        pytest.param("\u00e9" * 40, id="no ASCII"),
        pytest.param("d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a", id="64 digits, which may be either"),
    ],
)
def test_what_only_looks_like_one_is_none(text: str) -> None:
    assert not is_public_key(text)
