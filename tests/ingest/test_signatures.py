"""The engine against published vectors and against everything that must not pass."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from ingest.headers import Headers
from ingest.schemes import GITHUB, SCHEMES, Scheme
from ingest.settings import SourceSettings
from ingest.signatures import Secret, sign, verify
from ingest.sources import scheme_of
from schemas.errors import BadSignature, MalformedRequest

VECTORS = Path(__file__).parents[1] / "vectors"
SECRET = Secret.of(b"It's a Secret to Everybody")
OTHER = Secret.of(b"a secret that is being retired")
BODY = b"Hello, World!"
GOOD = "sha256=757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17"


def vectors() -> list[Any]:
    pages = [json.loads(path.read_text()) for path in sorted(VECTORS.glob("*.json"))]
    return [pytest.param(page["scheme"], vector, id=vector["from"]) for page in pages for vector in page["vectors"]]


def scheme_in(name: str, vector: dict[str, Any]) -> Scheme:
    return scheme_of(SourceSettings(scheme=name, **vector["settings"]), name="vector", at="vector")


def headers(*values: bytes, name: bytes = b"x-hub-signature-256") -> Headers:
    return Headers([(name, value) for value in values])


@pytest.mark.parametrize(("name", "vector"), vectors())
def test_a_published_vector_verifies(name: str, vector: dict[str, Any]) -> None:
    secret = Secret.of(vector["secret"].encode())
    given = Headers([(key.encode(), value.encode()) for key, value in vector["headers"].items()])

    assert verify(scheme_in(name, vector), headers=given, body=vector["body"].encode(), secrets=[secret]) == secret.key_id


@pytest.mark.parametrize(("name", "vector"), vectors())
def test_signing_gives_the_published_header(name: str, vector: dict[str, Any]) -> None:
    scheme = scheme_in(name, vector)

    signature = sign(scheme, body=vector["body"].encode(), secret=Secret.of(vector["secret"].encode()))

    assert {scheme.signature_header: signature} == vector["headers"]


def test_every_scheme_has_vectors() -> None:
    assert {path.stem for path in VECTORS.glob("*.json")} == set(SCHEMES)


@pytest.mark.parametrize(
    "value",
    [
        pytest.param(b"", id="empty"),
        pytest.param(b"sha256=", id="prefix only"),
        pytest.param(GOOD[:-2].encode(), id="truncated"),
        pytest.param(GOOD.encode() + b"00", id="too long"),
        pytest.param(b"sha1=" + GOOD[7:].encode(), id="other prefix"),
        pytest.param(GOOD[7:].encode(), id="no prefix"),
        pytest.param(b"SHA256=" + GOOD[7:].encode(), id="prefix in capitals"),
        pytest.param(b"sha256=" + GOOD[7:].upper().encode(), id="digits in capitals"),
        pytest.param(b"sha256= " + GOOD[7:].encode(), id="space after the prefix"),
        pytest.param(GOOD.encode() + b" ", id="space at the end"),
        pytest.param(b"sha256=" + b" ".join([GOOD[7:39].encode(), GOOD[39:].encode()]), id="space inside"),
        pytest.param(GOOD.encode() + b"," + GOOD.encode(), id="two joined by a proxy"),
        pytest.param("sha256=ë".encode() * 8, id="not ASCII"),
        pytest.param(b"sha256=" + b"\xff" * 64, id="not text"),
        pytest.param("sha256=７５７１".encode(), id="full-width digits"),
        pytest.param(b"sha256=" + b"0" * 64, id="zeros"),
        pytest.param(b"sha256=***", id="placeholder"),
    ],
)
def test_any_other_header_is_a_bad_signature(value: bytes) -> None:
    with pytest.raises(BadSignature):
        verify(GITHUB, headers=headers(value), body=BODY, secrets=[SECRET])


@pytest.mark.parametrize(
    "value",
    [
        pytest.param("!!!!", id="no base64 at all"),
        pytest.param("W9zBRr9gdU5qBCQmCJV1x1oAPwidJzmDnexYuWTsOEM", id="padding missing"),
        pytest.param("W9zBRr9gdU5qBCQmCJV1x1oAPwidJzmDnexYuWTsOEN=", id="other spare bits, same digest"),
        pytest.param("W9zBRr9gdU5qBCQm\nCJV1x1oAPwidJzmDnexYuWTsOEM=", id="line break"),
        pytest.param("W9zBRr9gdU5qBCQmCJV1x1oAPwidJzmDnexYuWTsOEM==", id="too much padding"),
        pytest.param("5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843", id="hex instead"),
    ],
)
def test_base64_is_accepted_in_one_spelling_only(value: str) -> None:
    scheme = Scheme(name="b", signature_header="x-signature", encoding="base64")

    with pytest.raises(BadSignature):
        verify(
            scheme,
            headers=headers(value.encode(), name=b"x-signature"),
            body=b"what do ya want for nothing?",
            secrets=[Secret.of(b"Jefe")],
        )


def test_a_missing_header_is_a_bad_signature() -> None:
    with pytest.raises(BadSignature):
        verify(GITHUB, headers=Headers([]), body=BODY, secrets=[SECRET])


def test_the_older_sha1_header_is_never_looked_at() -> None:
    sha1 = sign(Scheme(name="old", signature_header="x-hub-signature", algorithm="sha1", prefix="sha1="), body=BODY, secret=SECRET)

    with pytest.raises(BadSignature):
        verify(GITHUB, headers=headers(sha1.encode(), name=b"x-hub-signature"), body=BODY, secrets=[SECRET])


def test_a_repeated_header_is_malformed_even_when_both_are_right() -> None:
    with pytest.raises(MalformedRequest):
        verify(GITHUB, headers=headers(GOOD.encode(), GOOD.encode()), body=BODY, secrets=[SECRET])


@pytest.mark.parametrize("body", [b"", b"Hello, World", b"Hello, World!\n", b"hello, World!", b"\xef\xbb\xbfHello, World!"])
def test_a_changed_body_is_a_bad_signature(body: bytes) -> None:
    with pytest.raises(BadSignature):
        verify(GITHUB, headers=headers(GOOD.encode()), body=body, secrets=[SECRET])


def test_another_secret_is_a_bad_signature() -> None:
    with pytest.raises(BadSignature):
        verify(GITHUB, headers=headers(GOOD.encode()), body=BODY, secrets=[OTHER])


def test_no_secret_at_all_is_a_bad_signature() -> None:
    with pytest.raises(BadSignature):
        verify(GITHUB, headers=headers(GOOD.encode()), body=BODY, secrets=[])


@pytest.mark.parametrize("secrets", [[SECRET, OTHER], [OTHER, SECRET]])
def test_while_secrets_rotate_either_one_verifies_and_is_named(secrets: list[Secret]) -> None:
    with_old = sign(GITHUB, body=BODY, secret=OTHER).encode()

    assert verify(GITHUB, headers=headers(GOOD.encode()), body=BODY, secrets=secrets) == SECRET.key_id
    assert verify(GITHUB, headers=headers(with_old), body=BODY, secrets=secrets) == OTHER.key_id


def test_a_body_that_is_no_text_verifies() -> None:
    body = bytes(range(256))

    assert verify(GITHUB, headers=headers(sign(GITHUB, body=body, secret=SECRET).encode()), body=body, secrets=[SECRET])


def test_a_secret_is_never_shown() -> None:
    assert "Everybody" not in repr(SECRET)
    assert SECRET.key_id.encode() not in SECRET.value
    assert SECRET.key_id != OTHER.key_id
