"""The engine where a scheme's own mechanics matter; `test_vectors.py` has what holds for all of them."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import replace
from datetime import UTC, datetime

import pytest

from ingest.describe import describe
from ingest.headers import Headers
from ingest.keys import Key, prepare
from ingest.providers_messages import SLACK, TWILIO
from ingest.providers_sales import STRIPE
from ingest.providers_standards import STANDARD_WEBHOOKS, STANDARD_WEBHOOKS_V1A
from ingest.request import Request
from ingest.scheme import Header, Scheme
from ingest.schemes import GENERIC, GITHUB, SCHEMES
from ingest.signatures import sign, verify
from schemas.errors import BadSignature, ConfigError, MalformedRequest
from tests.faults.hostile.genuine import notification
from tests.faults.hostile.private_keys import made_pair, private_key
from tests.ingest.vectors import FOLDER, Vector, vectors_of

NOW = datetime(2026, 1, 15, 12, 0, tzinfo=UTC)
BODY = b"Hello, World!"
GOOD = "sha256=757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17"


def key(scheme: Scheme, text: str = "It's a Secret to Everybody") -> Key:
    return prepare(scheme, secret=text.encode(), at="secret")


def request(*headers: tuple[str, str], body: bytes = BODY, query: str = "", public_url: str = "") -> Request:
    return Request(Headers([(name.encode(), value.encode("latin-1")) for name, value in headers]), body, query=query, public_url=public_url)


def verified(scheme: Scheme, *headers: tuple[str, str], secret: str = "It's a Secret to Everybody", body: bytes = BODY) -> str:
    return verify(scheme, request=request(*headers, body=body), secrets=[key(scheme, secret)], now=NOW).key_id


@pytest.mark.parametrize(
    "value",
    [
        pytest.param("sha256=", id="prefix only"),
        pytest.param(GOOD[:-2], id="truncated"),
        pytest.param(GOOD + "00", id="too long"),
        pytest.param("sha1=" + GOOD[7:], id="other prefix"),
        pytest.param(GOOD[7:], id="no prefix"),
        pytest.param("SHA256=" + GOOD[7:], id="prefix in capitals"),
        pytest.param("sha256=" + GOOD[7:].upper(), id="digits in capitals"),
        pytest.param("sha256= " + GOOD[7:], id="space after the prefix"),
        pytest.param(f"sha256={GOOD[7:39]} {GOOD[39:]}", id="space inside"),
        pytest.param(f"{GOOD},{GOOD}", id="two joined by a proxy"),
        pytest.param("sha256=" + "\xff" * 64, id="not text"),
        pytest.param("sha256=" + "0" * 64, id="zeros"),
    ],
)
def test_any_other_spelling_is_a_bad_signature(value: str) -> None:
    assert verified(GITHUB, ("x-hub-signature-256", GOOD))
    with pytest.raises(BadSignature):
        verified(GITHUB, ("x-hub-signature-256", value))


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
    scheme = replace(GENERIC, signature=Header("x-signature"), encoding="base64")

    with pytest.raises(BadSignature):
        verified(scheme, ("x-signature", value), secret="Jefe", body=b"what do ya want for nothing?")


def test_the_signature_of_a_public_key_is_accepted_in_one_spelling_only() -> None:
    (vector,) = vectors_of(FOLDER / "standard-webhooks-v1a.json")
    respelled = vector.signature.replace("AQ==", "AR==").replace("BAg==", "BAh==")

    assert respelled != vector.signature
    with pytest.raises(BadSignature):
        vector.with_signature(respelled).verified()


def test_the_older_sha1_header_is_never_looked_at() -> None:
    old = replace(GITHUB, signature=Header("x-hub-signature"), prefix="sha1=", algorithm="sha1")
    signed = sign(old, request=request(), secret=key(old), now=NOW).headers

    assert verified(old, *signed.items())
    with pytest.raises(BadSignature):
        verified(GITHUB, *signed.items())


def test_a_sha1_digest_under_the_sha256_header_is_a_bad_signature() -> None:
    sha1 = sign(replace(GITHUB, algorithm="sha1"), request=request(), secret=key(replace(GITHUB, algorithm="sha1")), now=NOW).headers

    with pytest.raises(BadSignature):
        verified(GITHUB, *sha1.items())


def test_a_body_that_is_no_text_verifies() -> None:
    body = bytes(range(256))
    signed = sign(GITHUB, request=request(body=body), secret=key(GITHUB), now=NOW).headers

    assert verified(GITHUB, *signed.items(), body=body)


def test_an_id_with_a_dot_could_be_divided_in_another_way_and_is_refused() -> None:
    (vector,) = vectors_of(FOLDER / "standard-webhooks.json")
    moved = vector.with_header("webhook-id", "msg_p5jXN8AQM9LWM0D4loKWxJek.1614265330").with_header("webhook-timestamp", "1614265330")

    with pytest.raises(BadSignature, match="dot"):
        moved.verified()


def test_two_times_in_one_header_are_refused() -> None:
    stamped = sign(STRIPE, request=request(), secret=key(STRIPE), now=NOW).headers["stripe-signature"]

    assert verified(STRIPE, ("stripe-signature", stamped))
    for doubled in (f"{stamped},t=1", f"t=1,{stamped}", stamped.partition(",")[2]):
        with pytest.raises(BadSignature, match="must have one t"):
            verified(STRIPE, ("stripe-signature", doubled))


def test_the_time_is_signed_in_the_text_it_came_in() -> None:
    """Read as a number and written again, it would lose its zeros and fit another signature."""
    text = f"00{int(NOW.timestamp())}"
    value = key(SLACK).sign(b"v0:%b:%b" % (text.encode(), BODY))

    assert verified(SLACK, ("x-slack-request-timestamp", text), ("x-slack-signature", f"v0={value}"))


@pytest.mark.parametrize("text", ["whsec_", "whsec_QUJD", "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2La"])
def test_a_secret_is_as_long_as_what_it_stands_for(text: str) -> None:
    with pytest.raises(ConfigError, match=r"stands for \d+ bytes.*needs 24.*guessed"):
        key(STANDARD_WEBHOOKS, text)


class Asked:
    """A key that counts how often it is asked, in the place of one whose time would have to be measured."""

    def __init__(self, key: Key) -> None:
        self.key, self.key_id, self.times = key, key.key_id, 0

    def made(self, signatures: Sequence[bytes], contents: Sequence[bytes]) -> bool:
        self.times += 1
        return self.key.made(signatures, contents)

    def sign(self, content: bytes) -> str:
        return self.key.sign(content)


def test_every_secret_is_asked_also_after_one_has_matched() -> None:
    keys = [Asked(key(GITHUB)), Asked(key(GITHUB, "a secret that is being retired")), Asked(key(GITHUB, "and one that is quite new"))]

    proof = verify(GITHUB, request=request(("x-hub-signature-256", GOOD)), secrets=keys, now=NOW)

    assert (proof.key_id, [one.times for one in keys]) == (keys[0].key_id, [1, 1, 1])


def test_a_hmac_keyed_with_the_public_key_is_a_bad_signature() -> None:
    """The classic confusion of algorithms: whoever knows the public key would sign as if it were a shared secret."""
    (vector,) = vectors_of(FOLDER / "standard-webhooks-v1a.json")
    public = vector.secret.decode().removeprefix("whpk_")
    forged = sign(STANDARD_WEBHOOKS, request=vector.request, secret=key(STANDARD_WEBHOOKS, f"whsec_{public}"), now=vector.at)
    value = forged.headers["webhook-signature"]

    for written in (value, value.replace("v1,", "v1a,")):
        with pytest.raises(BadSignature):
            vector.with_signature(written).verified()


@pytest.mark.parametrize(
    ("scheme", "text"),
    [
        (STANDARD_WEBHOOKS, "whsec_not base64!"),
        (STANDARD_WEBHOOKS_V1A, "whpk_c2hvcnQ="),
        (STANDARD_WEBHOOKS_V1A, "whsk_6Xb/dCcHpPea21PS1N9VY/NZW723CEc77N4rJCubMbfVKIDij2HKpMKkioLlX0dRqSKJp4AJ6p9lMicMFs6Kvg=="),
        (SCHEMES["discord"], "zz" * 32),
        (SCHEMES["sendgrid"], "MFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAE83T4"),
        (SCHEMES["sendgrid"], "MCowBQYDK2VwAyEA11qYAYKxCrfVS/7TyWQHOg7hcvPapiMlrwIaaPcHURo="),
    ],
)
def test_a_key_of_the_wrong_form_is_named_at_start_and_not_shown(scheme: Scheme, text: str) -> None:
    with pytest.raises(ConfigError, match=r"tenants\.demo\.sources\.x\.secrets\[0\]") as error:
        prepare(scheme, secret=text.encode(), at="tenants.demo.sources.x.secrets[0]")

    assert text not in str(error.value)


@pytest.mark.parametrize("other", [b"\\ud800", b"\\udfff", b"\xff", b"\xed\xa0\x80", b"\\u00ff", b"\\ufffd"])
@pytest.mark.parametrize("name", ["aws-sns", "aws-sns-v1", "mailgun"])
def test_what_is_no_letter_does_not_pass_for_a_signed_question_mark(name: str, other: bytes) -> None:
    scheme = SCHEMES[name]
    body = json.dumps(notification(1, message="Is it?") if scheme.uses_public_key else {"signature": {"token": "is-it?"}}).encode()
    mine = a_signing_key(scheme)
    signed = sign(scheme, request=request(body=body), secret=mine, now=NOW).body

    assert verify(scheme, request=request(body=signed), secrets=[mine], now=NOW).key_id == mine.key_id
    with pytest.raises(BadSignature):
        verify(scheme, request=request(body=signed.replace(b"?", other)), secrets=[mine], now=NOW)


@pytest.mark.parametrize("first", ['"evil"', "7", "null", "{}"])
@pytest.mark.parametrize("member", ["Message", "TopicArn", "Type", "Signature", "UnsubscribeURL"])
@pytest.mark.parametrize("name", ["aws-sns", "aws-sns-v1"])
def test_of_a_member_that_stands_there_twice_nobody_can_tell_which_was_signed(name: str, member: str, first: str) -> None:
    scheme, content = SCHEMES[name], {**notification(1), "UnsubscribeURL": "https://sns.us-west-2.amazonaws.com/"}
    mine = a_signing_key(scheme)
    signed = sign(scheme, request=request(body=json.dumps(content).encode()), secret=mine, now=NOW).body

    assert verify(scheme, request=request(body=signed), secrets=[mine], now=NOW).key_id == mine.key_id
    for repeated in (f'{{"{member}": {first}, ', f'{{"\\u00{ord(member[0]):02x}{member[1:]}": {first}, '):
        with pytest.raises(BadSignature):
            verify(scheme, request=request(body=repeated.encode() + signed[1:]), secrets=[mine], now=NOW)


@pytest.mark.parametrize(
    ("subject", "is_believed"), [("null", True), ('"evil"', False), ("7", False), ("[]", False), ('{"a": "b"}', False)]
)
def test_a_subject_where_none_was_signed_is_believed_only_if_it_says_nothing(subject: str, is_believed: bool) -> None:
    scheme, content = SCHEMES["aws-sns"], {name: value for name, value in notification(1).items() if name != "Subject"}
    mine = a_signing_key(scheme)
    signed = sign(scheme, request=request(body=json.dumps(content).encode()), secret=mine, now=NOW).body
    asked = request(body=b'{"Subject": %b, %b' % (subject.encode(), signed[1:]))

    with nullcontext() if is_believed else pytest.raises(BadSignature):
        verify(scheme, request=asked, secrets=[mine], now=NOW)


def test_what_stands_twice_within_a_member_that_is_not_signed_is_let_be() -> None:
    scheme = SCHEMES["aws-sns"]
    mine = a_signing_key(scheme)
    signed = sign(scheme, request=request(body=json.dumps(notification(1)).encode()), secret=mine, now=NOW).body
    body = b'{"MessageAttributes": {"a": {"Type": "String"}, "a": 1}, ' + signed[1:]

    assert verify(scheme, request=request(body=body), secrets=[mine], now=NOW).key_id == mine.key_id


def a_signing_key(scheme: Scheme) -> Key:
    if not scheme.uses_public_key:
        return key(scheme)
    public, pem = made_pair(scheme)
    return private_key(scheme, public=key(scheme, public.decode()), pem=pem)


class TestTwilio:
    """A signature over an address and a form leaves room for tricks with the body."""

    @pytest.fixture
    def form(self) -> Vector:
        return vectors_of(FOLDER / "twilio.json")[0]

    @pytest.fixture
    def hashed(self) -> Vector:
        return vectors_of(FOLDER / "twilio.json")[-1]

    def test_a_body_that_is_no_form_is_refused_where_nothing_covers_it(self) -> None:
        url = "https://example.com/hook"
        signed = sign(TWILIO, request=request(body=b"", public_url=url), secret=key(TWILIO), now=NOW).headers
        stolen = request(("content-type", "application/json"), *signed.items(), body=b'{"a": 1}', public_url=url)

        with pytest.raises(BadSignature, match="nothing covers the body"):
            verify(TWILIO, request=stolen, secrets=[key(TWILIO)], now=NOW)

    def test_another_body_does_not_fit_the_hash_in_the_address(self, hashed: Vector) -> None:
        for body in (b"", b"{}"):
            with pytest.raises(BadSignature, match="bodySHA256"):
                replace(hashed, body=body).with_header("content-type", "application/x-www-form-urlencoded").verified()

    def test_a_hash_that_is_added_to_the_address_is_not_signed(self, form: Vector) -> None:
        body = b'{"a": 1}'

        with pytest.raises(BadSignature):
            replace(form, body=body, query=f"{form.query}&bodySHA256={hashlib.sha256(body).hexdigest()}").verified()

    def test_the_address_is_the_one_of_the_settings_and_not_of_the_request(self, form: Vector) -> None:
        elsewhere = replace(form, public_url="https://mycompany.com/other.php").with_header("host", "mycompany.com")

        with pytest.raises(BadSignature):
            elsewhere.with_header("x-forwarded-host", "mycompany.com").verified()


def test_a_token_in_the_body_that_is_no_json_is_a_bad_signature() -> None:
    for body in (b"", b"[]", b"{", b"\xff", b'{"signature": "x"}', json.dumps({"signature": {"signature": ["x"]}}).encode()):
        with pytest.raises(BadSignature):
            verified(SCHEMES["mailgun"], body=body)


@pytest.mark.parametrize("scheme", [one for one in SCHEMES.values() if one.algorithm == "sha256-plain"], ids=lambda scheme: scheme.name)
def test_a_plain_hash_that_was_carried_on_past_its_end_is_verified_and_refused(scheme: Scheme) -> None:
    """Whoever saw one request can hash on from its digest without the secret, but only behind the padding of SHA-256."""
    secret, url, body = "a-secret-of-hubspots-length", "https://example.com/hook", b'[{"eventId": 1}]'
    before = secret.encode() + (b"POST" + url.encode() if scheme.is_url_bound else b"") + body
    padding = b"\x80" + bytes(-(len(before) + 9) % 64) + (8 * len(before)).to_bytes(8, "big")
    longer = body + padding + b',{"eventId": 2}]'
    digest = hashlib.sha256(before + padding + b',{"eventId": 2}]').hexdigest()

    for content_type in ("application/json", "application/x-www-form-urlencoded", "text/plain"):
        carried_on = request(("x-hubspot-signature", digest), ("content-type", content_type), body=longer, public_url=url)
        assert verify(scheme, request=carried_on, secrets=[key(scheme, secret)], now=NOW).key_id
        with pytest.raises(MalformedRequest):
            describe(scheme, request=carried_on)
