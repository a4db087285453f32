"""Every scheme against its vectors, and against what must pass under no scheme."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta

import pytest

from ingest.keys import Key, prepare
from ingest.scheme import Header, Item, Member, Part
from ingest.schemes import SCHEMES
from ingest.signatures import sign, verify
from ingest.timestamps import written
from schemas.errors import BadSignature, ConfigError, MalformedRequest, StaleTimestamp
from tests.ingest.labels import emptied, own_name, renamed, unnamed
from tests.ingest.vectors import FOLDER, Vector, all_vectors

VECTORS = all_vectors()
FIRST = list({vector.scheme.name: vector for vector in reversed(VECTORS)}.values())
"""One of each scheme: what does not depend on the request is tried once."""


def named(vector: Vector) -> str:
    return f"{vector.scheme.name}: {vector.origin}"


every_vector = pytest.mark.parametrize("vector", VECTORS, ids=named)
every_scheme = pytest.mark.parametrize("vector", FIRST, ids=lambda vector: vector.scheme.name)
every_named = pytest.mark.parametrize("vector", [vector for vector in VECTORS if own_name(vector.scheme)], ids=named)
"""Of the schemes whose signatures stand under a name; of `generic`, by the settings of its source."""


def those(condition: Callable[[Vector], object]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("vector", [one for one in FIRST if condition(one)], ids=lambda vector: vector.scheme.name)


def other_key(vector: Vector) -> Key:
    """A key of the same form that signed nothing here."""
    if vector.other_secret:
        return prepare(vector.scheme, secret=vector.other_secret.encode(), at="other")
    others = {"text": "quite-another-secret-of-that-length", "base64": "whsec_" + "QUJD" * 8}
    others |= {"ed25519-hex": "d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a"}
    others |= {"ed25519-base64": "whpk_11qYAYKxCrfVS/7TyWQHOg7hcvPapiMlrwIaaPcHURo="}
    return prepare(vector.scheme, secret=others[vector.scheme.secret_form].encode(), at="other")


def covers_body(vector: Vector) -> bool:
    return bool({Part.BODY, Part.FORM, Part.NOTIFICATION} & set(vector.scheme.signed)) and vector.scheme.algorithm != "token"


def test_only_these_sign_nothing_of_the_body() -> None:
    assert {one.scheme.name for one in VECTORS if not covers_body(one)} == {"cloudevents", "gitlab-token", "mailgun"}


def test_every_scheme_has_vectors() -> None:
    assert {path.stem for path in FOLDER.glob("*.json")} == set(SCHEMES)


def test_a_scheme_is_confirmed_when_a_vector_of_it_was_published_and_only_then() -> None:
    published = {vector.scheme.name for vector in VECTORS if vector.published}

    assert {scheme.name for scheme in SCHEMES.values() if scheme.confirmed} == published


@every_vector
def test_a_vector_verifies(vector: Vector) -> None:
    assert vector.is_believed


@pytest.mark.parametrize("vector", [one for one in VECTORS if one.signs and not one.scheme.uses_public_key], ids=named)
def test_signing_gives_the_same_request(vector: Vector) -> None:
    signed = sign(vector.scheme, request=vector.request, secret=vector.key, now=vector.at)

    assert set(signed.headers.items()) <= set(vector.headers)
    assert replace(vector, body=signed.body).is_believed
    assert replace(vector, body=signed.body).signature == vector.signature


@those(lambda one: one.scheme.uses_public_key)
def test_only_its_sender_can_sign_with_a_private_key(vector: Vector) -> None:
    with pytest.raises(ConfigError, match=f"scheme {vector.scheme.name} is verified with a public key.*nothing was sent"):
        sign(vector.scheme, request=vector.request, secret=vector.key, now=vector.at)


@pytest.mark.parametrize("vector", [one for one in VECTORS if covers_body(one)], ids=named)
def test_a_changed_body_is_a_bad_signature_where_the_body_is_signed(vector: Vector) -> None:
    for changed in {vector.body + b" ", vector.body[:-1], b"", bytes(byte ^ 1 for byte in vector.body)} - {vector.body}:
        if Part.NOTIFICATION in vector.scheme.signed and changed.endswith(b" "):
            continue  # Only members are signed, not the spaces between them.
        with pytest.raises(BadSignature):
            replace(vector, body=changed).verified()


@every_scheme
def test_another_secret_is_a_bad_signature(vector: Vector) -> None:
    with pytest.raises(BadSignature):
        vector.verified(other_key(vector))


@every_scheme
def test_without_any_secret_nothing_is_believed(vector: Vector) -> None:
    with pytest.raises(BadSignature):
        verify(vector.scheme, request=vector.request, secrets=(), now=vector.at)


@every_scheme
def test_while_secrets_rotate_either_one_verifies_and_is_named(vector: Vector) -> None:
    other = other_key(vector)

    assert vector.verified(vector.key, other).key_id == vector.verified(other, vector.key).key_id == vector.key.key_id
    assert other.key_id != vector.key.key_id


@every_scheme
@pytest.mark.parametrize(
    "change",
    [
        pytest.param(lambda text: "", id="empty"),
        pytest.param(lambda text: " ", id="a space"),
        pytest.param(lambda text: text[:-2], id="truncated"),
        pytest.param(lambda text: text[: len(text) // 2], id="half of it"),
        pytest.param(lambda text: f"{text}0", id="one character more"),
        pytest.param(lambda text: f"{text}\t", id="tab at the end"),
        pytest.param(lambda text: f"\t{text}", id="tab in front"),
        pytest.param(lambda text: f"md5={text}", id="prefix of another algorithm in front"),
        pytest.param(lambda text: f"{text}\u00e9", id="not ASCII"),
        pytest.param(lambda text: "\u00ff" * len(text), id="not text"),
        pytest.param(lambda text: text.swapcase(), id="other case"),
        pytest.param(lambda text: "***", id="placeholder"),
        pytest.param(lambda text: "!!!!", id="what lenient base64 reads as nothing"),
        pytest.param(lambda text: "=" * 40 + "," * 40, id="separators only"),
    ],
)
def test_any_other_signature_is_a_bad_one(vector: Vector, change: Callable[[str], str]) -> None:
    with pytest.raises(BadSignature):
        vector.with_signature(change(vector.signature)).verified()


@every_named
@pytest.mark.parametrize("name", ["sha1", "sha256", "sha384", "sha512", "md5", "hmac-sha256", "v0", "v1", "v1a", "v2", "v9", "h1", ""])
def test_every_signature_under_the_name_of_another_algorithm_is_a_bad_one(vector: Vector, name: str) -> None:
    if name == own_name(vector.scheme):
        assert vector.with_signature(renamed(vector.scheme, vector.signature, name=name)).is_believed
        return
    with pytest.raises(BadSignature):
        vector.with_signature(renamed(vector.scheme, vector.signature, name=name)).verified()


@every_named
@pytest.mark.parametrize(
    "changed",
    [
        pytest.param(lambda name: name.swapcase(), id="other case"),
        pytest.param(lambda name: name[:-1], id="shortened"),
        pytest.param(lambda name: f"{name}0", id="one character more"),
        pytest.param(lambda name: f"{name} ", id="a space behind"),
        pytest.param(lambda name: f"\t{name}", id="a tab in front"),
        pytest.param(lambda name: f"\u00e9{name}", id="not ASCII"),
    ],
)
def test_every_signature_under_its_own_name_in_another_spelling_is_a_bad_one(vector: Vector, changed: Callable[[str], str]) -> None:
    respelled = renamed(vector.scheme, vector.signature, name=changed(own_name(vector.scheme)))

    with pytest.raises(BadSignature):
        vector.with_signature(respelled).verified()


@every_named
def test_a_signature_without_its_name_is_a_bad_one(vector: Vector) -> None:
    with pytest.raises(BadSignature):
        vector.with_signature(unnamed(vector.scheme, vector.signature)).verified()


@every_named
def test_nothing_behind_the_right_name_is_a_bad_signature(vector: Vector) -> None:
    nothing = emptied(vector.scheme, vector.signature)

    # A list may go on behind an empty one, or come twice.
    separator = vector.scheme.items.separator if vector.scheme.items else ""
    for text in (nothing, f"{nothing} ", nothing + separator, separator.join([nothing] * 2)):
        with pytest.raises(BadSignature):
            vector.with_signature(text).verified()


@every_scheme
def test_a_missing_signature_is_a_bad_one(vector: Vector) -> None:
    without = replace(vector, headers=(), body=b"{}" if isinstance(vector.scheme.signature, Member) else vector.body)

    with pytest.raises(BadSignature):
        without.verified()


@those(lambda one: one.scheme.proof_headers or isinstance(one.scheme.signature, Header))
def test_a_repeated_header_is_malformed_even_when_both_are_right(vector: Vector) -> None:
    place = vector.scheme.signature
    counts = {place.name} if isinstance(place, Header) else set()

    for name in counts | set(vector.scheme.proof_headers):
        with pytest.raises(MalformedRequest):
            replace(vector, headers=(*vector.headers, (name, dict(vector.headers)[name]))).verified()


@those(lambda one: one.scheme.timestamp)
@pytest.mark.parametrize("sign_of", [-1, 1])
def test_a_time_outside_the_tolerance_is_stale_before_and_after(vector: Vector, sign_of: int) -> None:
    just = timedelta(seconds=vector.scheme.tolerance_s)

    assert replace(vector, later=sign_of * (just - timedelta(seconds=1))).is_believed
    with pytest.raises(StaleTimestamp):
        replace(vector, later=sign_of * (just + timedelta(seconds=1))).verified()


@those(lambda one: isinstance(one.scheme.timestamp, Header))
@pytest.mark.parametrize(
    "text", ["", "1_700_000_000", "１７００００００００", "1.7e9", " 1700000000", "+1700000000", "nan", "-1", "9" * 13, "0x1"]
)
def test_a_time_in_another_spelling_is_a_bad_signature(vector: Vector, text: str) -> None:
    assert isinstance(vector.scheme.timestamp, Header)
    changed = vector.with_header(vector.scheme.timestamp.name, text.encode().decode("latin-1"))

    with pytest.raises(BadSignature):
        changed.verified()


SPELLINGS: list[Callable[[str], str]] = [
    lambda text: f" {text}",
    lambda text: f"{text} ",
    lambda text: f"+{text}",
    lambda text: f"{text}.0",
    lambda text: f"{text[:-3]}_{text[-3:]}",
    lambda text: text.translate({ord("0") + digit: 0xFF10 + digit for digit in range(10)}).encode().decode("latin-1"),
    lambda text: text.replace("T", " "),
    lambda text: text.replace("-", "").replace(":", ""),
    lambda text: text.replace("Z", ""),
]


@those(lambda one: isinstance(one.scheme.timestamp, Header | Item) and not one.scheme.uses_public_key)
@pytest.mark.parametrize("spelled", SPELLINGS)
def test_a_time_in_another_spelling_is_refused_though_its_sender_signed_it(
    vector: Vector, spelled: Callable[[str], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    text = written(vector.at, unit=vector.scheme.timestamp_unit)
    monkeypatch.setattr("ingest.signatures.written", lambda now, *, unit: spelled(text))
    signed = sign(vector.scheme, request=vector.request, secret=vector.key, now=vector.at)
    resigned = replace(vector, headers=tuple((dict(vector.headers) | signed.headers).items()))

    if spelled(text) == text:  # a spelling of another unit
        assert resigned.is_believed
        return
    with pytest.raises(BadSignature, match="not written as the scheme says"):
        resigned.verified()


@those(lambda one: one.scheme.items)
def test_of_several_signatures_one_right_one_is_enough(vector: Vector) -> None:
    items = vector.scheme.items
    assert items is not None
    wrong = f"{items.wanted}{items.pair}{'0' * 64}"

    assert vector.with_signature(items.separator.join([vector.signature, wrong])).is_believed
    assert vector.with_signature(items.separator.join([wrong, wrong, vector.signature])).is_believed
    assert vector.with_signature(items.separator.join([f"v0{items.pair}00", vector.signature])).is_believed


@those(lambda one: one.scheme.items)
def test_no_more_than_five_signatures_are_looked_at(vector: Vector) -> None:
    items = vector.scheme.items
    assert items is not None
    wrong = [f"{items.wanted}{items.pair}{'0' * 64}"] * 5

    with pytest.raises(BadSignature):
        vector.with_signature(items.separator.join([*wrong, vector.signature])).verified()
    with pytest.raises(BadSignature):
        vector.with_signature(items.separator.join([vector.signature, *[f"v0{items.pair}0"] * 20])).verified()


@those(lambda one: one.scheme.items)
def test_a_signature_of_another_version_is_never_looked_at(vector: Vector) -> None:
    items = vector.scheme.items
    assert items is not None
    version = f"{items.wanted}{items.pair}"

    for other in ("v0", "v2", items.wanted.upper(), f"{items.wanted}\t", f"\t{items.wanted}"):
        with pytest.raises(BadSignature):
            vector.with_signature(vector.signature.replace(version, f"{other}{items.pair}")).verified()


@every_scheme
def test_what_is_stored_is_enough_to_verify_again_and_never_the_secret(vector: Vector) -> None:
    proof = vector.verified()

    assert repr(vector.secret)[2:-1] not in repr(proof)
    if vector.scheme.algorithm != "token":
        # An event has these beside its body, and what it was called.
        kept = {"content-type": dict(vector.headers).get("content-type", "")} | proof.signature_headers
        assert replace(vector, headers=tuple(kept.items())).verified().key_id == proof.key_id
    assert bool(proof.signed_url) == vector.scheme.is_url_bound


@every_scheme
def test_no_secret_is_in_the_text_of_its_key(vector: Vector) -> None:
    if not vector.scheme.uses_public_key:
        assert repr(vector.secret)[2:-1] not in repr(vector.key)
