"""Certificates of Amazon SNS: which address is ever called, how often, and what its failures mean. Only the far side is made up."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import pytest

from ingest.certificates import MOST_FETCHES, Certificates
from ingest.headers import Headers
from ingest.request import Request
from ingest.signatures import verify
from schemas.errors import BadSignature, Unavailable
from tests.ingest.vectors import FOLDER, Vector, vectors_of

THEN = datetime(2022, 7, 28, 22, 0, tzinfo=UTC)  # When the certificate of the vectors was valid.


@pytest.fixture
def vector() -> Vector:
    return vectors_of(FOLDER / "aws-sns.json")[0]


class Far:
    """The far side: answers with bytes or an error, and remembers what it was asked for."""

    def __init__(self, answer: bytes | Exception) -> None:
        self.answer = answer
        self.asked: list[str] = []

    def __call__(self, address: str) -> bytes:
        self.asked.append(address)
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


def naming(vector: Vector, address: object) -> Request:
    return Request(Headers([]), json.dumps({**json.loads(vector.body), "SigningCertURL": address}).encode())


async def test_the_certificate_that_a_request_names_is_fetched_once_and_verifies_it(vector: Vector) -> None:
    far = Far(vector.secret)
    certificates = Certificates(vector.scheme, at="source", fetch=far)

    await asyncio.gather(*[certificates.obtain(vector.request, now=THEN) for _ in range(20)])

    assert verify(vector.scheme, request=vector.request, secrets=certificates, now=THEN).key_id == vector.key.key_id
    assert far.asked == ["https://sns.us-east-2.amazonaws.com/SimpleNotificationService-7ff5318490ec183fbaddaa2a969abfda.pem"]


@pytest.mark.parametrize(
    "address",
    [
        "http://sns.us-east-2.amazonaws.com/SimpleNotificationService-7f.pem",
        "https://sns.us-east-2.amazonaws.com.evil.example/SimpleNotificationService-7f.pem",
        "https://evil.example/sns.us-east-2.amazonaws.com/SimpleNotificationService-7f.pem",
        "https://sns.us-east-2.amazonaws.com@evil.example/SimpleNotificationService-7f.pem",
        "https://sns.us-east-2.amazonaws.com:8443/SimpleNotificationService-7f.pem",
        "https://sns.a.b.amazonaws.com/SimpleNotificationService-7f.pem",
        "https://my-bucket.s3.amazonaws.com/SimpleNotificationService-7f.pem",
        "https://sns.us-east-2.amazonaws.com/SimpleNotificationService-7f.pem?x",
        "https://sns.us-east-2.amazonaws.com/SimpleNotificationService-7f.pem\n",
        "https://sns.us-east-2.amazonaws.com/../SimpleNotificationService-7f.pem",
        "https://169.254.169.254/SimpleNotificationService-7f.pem",
        "",
        None,
        7,
    ],
)
async def test_no_other_address_is_ever_called(vector: Vector, address: object) -> None:
    far = Far(vector.secret)

    with pytest.raises(BadSignature):
        await Certificates(vector.scheme, at="source", fetch=far).obtain(naming(vector, address), now=THEN)

    assert far.asked == []


@pytest.mark.parametrize(
    ("answer", "now", "error"),
    [
        pytest.param(OSError("timed out"), THEN, Unavailable, id="no answer is our trouble"),
        pytest.param(LookupError("nothing there"), THEN, BadSignature, id="no such certificate"),
        pytest.param(b"<html>", THEN, BadSignature, id="no certificate at all"),
        pytest.param(None, THEN + timedelta(days=400), BadSignature, id="expired"),
    ],
)
async def test_what_cannot_be_fetched_verifies_nothing(
    vector: Vector, answer: bytes | Exception | None, now: datetime, error: type[Exception]
) -> None:
    certificates = Certificates(vector.scheme, at="source", fetch=Far(vector.secret if answer is None else answer))

    with pytest.raises(error):
        await certificates.obtain(vector.request, now=now)

    assert len(certificates) == 0


async def test_a_message_of_another_topic_has_no_certificate_fetched_and_uses_up_no_fetch(vector: Vector) -> None:
    far = Far(vector.secret)
    topic = json.loads(vector.body)["TopicArn"]
    certificates = Certificates(vector.scheme, at="source", topics=frozenset({topic}), fetch=far)

    for forged in (f"{topic}-of-a-stranger", None, [topic]) * MOST_FETCHES:
        message = json.dumps({**json.loads(vector.body), "TopicArn": forged}).encode()
        with pytest.raises(BadSignature, match="topics"):
            await certificates.obtain(Request(Headers([]), message), now=THEN)
    asked_for_strangers = len(far.asked)
    await certificates.obtain(vector.request, now=THEN)

    assert (asked_for_strangers, len(certificates)) == (0, 1)


async def test_a_flood_of_names_is_asked_about_a_few_times_a_minute(vector: Vector) -> None:
    far = Far(LookupError("nothing there"))
    certificates = Certificates(vector.scheme, at="source", fetch=far)
    address: Callable[[int], str] = "https://sns.us-east-2.amazonaws.com/SimpleNotificationService-{:x}.pem".format

    for number in range(50):
        with pytest.raises((BadSignature, Unavailable)):
            await certificates.obtain(naming(vector, address(number)), now=THEN)
    assert len(far.asked) == MOST_FETCHES

    far.answer = vector.secret
    await certificates.obtain(vector.request, now=THEN + timedelta(minutes=2))
    assert len(certificates) == 1
