"""Which SNS topics are believed, and how a subscription to one of them is confirmed."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import datetime
import ssl
from dataclasses import replace
from pathlib import Path
from typing import Any

import orjson
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import padding, rsa
from starlette.types import Message

from infra.clock import Clock, EventIds
from infra.sections import QuarantineSettings
from infra.settings import LogSettings, load_settings
from infra.streams.stream import EventStream
from infra.telemetry import Telemetry
from ingest import confirming
from ingest.answering import Answering
from ingest.app import App
from ingest.appending import Appender
from ingest.confirming import confirm
from ingest.keeping import Keeper
from ingest.limits import InFlight
from ingest.quarantine import Quarantine
from ingest.rates import Rates
from ingest.receive import Receiver
from ingest.settings import IngestSettings
from ingest.sources import Sources
from ingest.subscriptions import MOST_AT_ONCE, Confirmations, Subscription, refuse_other_topics, subscription_in
from ingest.watch import LogWatch
from schemas.errors import BadSignature
from tests.infra.streams.raw import open_raw
from tests.ingest.receivers import write_home
from tests.ingest.vectors import FOLDER, vectors_of

TOPIC = "arn:aws:sns:us-west-2:123456789012:MyTopic"
OTHER = "arn:aws:sns:us-west-2:999999999999:MyTopic"
# The example of Amazon's page on the format of these messages; the token is shortened there, too.
CONFIRMATION = {
    "Type": "SubscriptionConfirmation",
    "MessageId": "165545c9-2a5c-472c-8df2-7ff2be2b3b1b",
    "Token": "2336412f37",
    "TopicArn": TOPIC,
    "Message": "You have chosen to subscribe to the topic.",
    "SubscribeURL": f"https://sns.us-west-2.amazonaws.com/?Action=ConfirmSubscription&TopicArn={TOPIC}&Token=2336412f37",
    "Timestamp": "2012-04-26T20:45:04.751Z",
}
SIGNED = ("Message", "MessageId", "SubscribeURL", "Timestamp", "Token", "TopicArn", "Type")
WANTED = Subscription(TOPIC, "t0ken")
ANSWERING = Answering(handshake="confirm-subscription", topics=frozenset({TOPIC}), confirms=True)


def test_the_call_is_built_from_the_topic_and_the_token() -> None:
    found = subscription_in(ANSWERING, content=CONFIRMATION)

    assert found == Subscription(TOPIC, "2336412f37")
    assert (found.host, found.target) == (
        "sns.us-west-2.amazonaws.com",
        "/?Action=ConfirmSubscription&TopicArn=arn%3Aaws%3Asns%3Aus-west-2%3A123456789012%3AMyTopic&Token=2336412f37",
    )
    assert Subscription(TOPIC.replace("arn:aws:", "arn:aws-cn:"), "t").host == "sns.us-west-2.amazonaws.com.cn"


@pytest.mark.parametrize("address", ["http://169.254.169.254/latest/meta-data", "file:///etc/passwd", "https://sns.evil.example/", ""])
def test_the_address_in_the_message_is_never_called(address: str) -> None:
    found = subscription_in(ANSWERING, content={**CONFIRMATION, "SubscribeURL": address})

    assert found is not None
    assert found.host == "sns.us-west-2.amazonaws.com"


@pytest.mark.parametrize(
    "change",
    [
        {"Type": "Notification"}, {"Type": "UnsubscribeConfirmation"}, {"TopicArn": OTHER}, {"TopicArn": None}, {"Token": ""},
        {"Token": "a&Action=DeleteTopic"}, {"Token": "x" * 1025}, {"Token": None}, {"Token": "a\n"},
    ],
)  # fmt: skip
def test_nothing_else_is_confirmed(change: dict[str, Any]) -> None:
    assert subscription_in(ANSWERING, content={**CONFIRMATION, **change}) is None
    assert subscription_in(replace(ANSWERING, confirms=False), content=CONFIRMATION) is None


def test_messages_of_topics_that_are_not_named_are_not_believed() -> None:
    refuse_other_topics(ANSWERING, content=CONFIRMATION)
    refuse_other_topics(Answering(), content={"TopicArn": OTHER})
    for content in ({"TopicArn": OTHER}, {}, None, {"TopicArn": [TOPIC]}):
        with pytest.raises(BadSignature, match="not among the source's topics"):
            refuse_other_topics(ANSWERING, content=content)


def certificate(name: str) -> tuple[rsa.RSAPrivateKey, bytes]:
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    subject = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)])
    begin = datetime.datetime.now(datetime.UTC) - datetime.timedelta(days=1)
    made = x509.CertificateBuilder(
        subject, subject, key.public_key(), x509.random_serial_number(), begin, begin + datetime.timedelta(days=9)
    )
    made = made.add_extension(x509.SubjectAlternativeName([x509.DNSName(name)]), critical=False)
    return key, made.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)


async def called(
    directory: Path, *, answer: bytes, name: str = "sns.us-west-2.amazonaws.com", target: str = WANTED.target
) -> tuple[str, list[bytes]]:
    """What confirming says when a server of that name answers so, and what the server was sent."""
    key, pem = certificate(name)
    private = key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    (directory / "server.pem").write_bytes(private + pem)
    (directory / "trusted.pem").write_bytes(pem)
    serving = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    serving.load_cert_chain(directory / "server.pem")
    heard: list[bytes] = []
    ended = asyncio.Event()

    async def respond(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        heard.append(await reader.readuntil(b"\r\n\r\n"))
        writer.write(answer)
        await closed(writer)
        ended.set()

    async with await asyncio.start_server(respond, "127.0.0.1", 0, ssl=serving) as server:
        trusting = ssl.create_default_context(cafile=str(directory / "trusted.pem"))
        said = await confirm(WANTED.host, target, at=server.sockets[0].getsockname(), tls=trusting)
        if heard:
            await ended.wait()
    return said, heard


async def closed(writer: asyncio.StreamWriter) -> None:
    writer.close()
    with contextlib.suppress(OSError):
        await writer.wait_closed()


async def test_amazon_is_called_once_over_tls(tmp_path: Path) -> None:
    said, heard = await called(tmp_path, answer=b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n")

    assert said == ""
    assert [line.split(b"\r\n")[:2] for line in heard] == [
        [
            b"GET /?Action=ConfirmSubscription&TopicArn=arn%3Aaws%3Asns%3Aus-west-2%3A123456789012%3AMyTopic&Token=t0ken HTTP/1.1",
            b"Host: sns.us-west-2.amazonaws.com",
        ]
    ]


@pytest.mark.parametrize(
    ("answer", "says"),
    [
        (b"HTTP/1.1 302 Found\r\nlocation: http://169.254.169.254/\r\ncontent-length: 0\r\n\r\n", "the answer was 302"),
        (b"HTTP/1.1 403 Forbidden\r\n\r\n", "the answer was 403"),
        (b"SSH-2.0\r\n", "the answer was no HTTP"),
        (b"", "the answer was no HTTP"),
        (b"HTTP/1.1 200" + b"0" * 100_000, "Separator is not found, and chunk exceed the limit"),
    ],
    ids=["redirect", "refusal", "another protocol", "nothing", "endless"],
)
async def test_any_other_answer_is_no_confirmation_and_no_redirect_is_followed(tmp_path: Path, answer: bytes, says: str) -> None:
    said, heard = await called(tmp_path, answer=answer)

    assert (said, len(heard)) == (says, 1)


async def test_a_server_of_another_name_is_not_believed(tmp_path: Path) -> None:
    said, heard = await called(tmp_path, answer=b"", name="sns.evil.example")

    assert "certificate" in said.lower()
    assert heard == []


async def test_a_server_that_says_nothing_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(confirming, "WITHIN_S", 0.2)

    ended = asyncio.Event()

    async def say_nothing(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()
        await closed(writer)
        ended.set()

    async with await asyncio.start_server(say_nothing, "127.0.0.1", 0) as server:
        async with asyncio.timeout(10):
            said = await confirm("sns.us-west-2.amazonaws.com", "/", at=server.sockets[0].getsockname())
            await ended.wait()

    assert said == "TimeoutError"


async def test_only_a_few_are_confirmed_at_once(telemetry: Telemetry) -> None:
    release, called_with = asyncio.Event(), []

    async def slowly(host: str, target: str) -> str:
        called_with.append(host + target)
        await release.wait()
        return ""

    confirmations = Confirmations(telemetry.log, call=slowly)
    for _ in range(MOST_AT_ONCE + 5):
        confirmations.begin(Subscription(TOPIC, "t"))
    await asyncio.sleep(0)

    assert len(called_with) == MOST_AT_ONCE
    release.set()


def signed(key: rsa.RSAPrivateKey, content: dict[str, str]) -> bytes:
    text = "".join(f"{name}\n{content[name]}\n" for name in SIGNED).encode()
    signature = base64.b64encode(key.sign(text, padding.PKCS1v15(), hashes.SHA256())).decode()
    return orjson.dumps({**content, "SignatureVersion": "2", "Signature": signature})


async def posted(app: App, body: bytes) -> int:
    sent: list[Message] = []

    async def receive() -> Message:
        return {"type": "http.request", "body": body, "more_body": False}

    async def send(message: Message) -> None:
        sent.append(message)

    path = "/hooks/demo/sns"
    scope = {"type": "http", "method": "POST", "path": path, "raw_path": path.encode(), "query_string": b"", "headers": []}
    await app(scope, receive, send)
    return int(sent[0]["status"])


async def test_a_signed_confirmation_of_a_named_topic_is_stored_and_confirmed(home: Path, log: LogSettings, telemetry: Telemetry) -> None:
    key, pem = certificate("sns.amazonaws.com")
    confirmed: list[tuple[str, str]] = []

    async def note(host: str, target: str) -> str:
        confirmed.append((host, target))
        return ""

    app, stream = app_with(home, log=log, pem=pem, telemetry=telemetry, confirmations=Confirmations(telemetry.log, call=note))
    statuses = [
        await posted(app, signed(key, CONFIRMATION)),
        await posted(app, signed(key, {**CONFIRMATION, "TopicArn": OTHER})),
        await posted(app, signed(certificate("sns.amazonaws.com")[0], CONFIRMATION)),
    ]
    await asyncio.sleep(0)
    await stream.close()

    client = open_raw(log, home=home)
    stored = [fields[b"event_type"] for name in client.scan_iter(f"{log.prefix}*events:default") for _, fields in client.xrange(name)]
    client.close()
    assert (statuses, confirmed) == ([202, 401, 401], [("sns.us-west-2.amazonaws.com", Subscription(TOPIC, "2336412f37").target)])
    assert stored == [b"sns.SubscriptionConfirmation"]


async def test_a_message_of_a_strangers_topic_cannot_be_divided_into_one_of_ours(
    home: Path, log: LogSettings, telemetry: Telemetry
) -> None:
    """Amazon signs lines, and a stranger writes as many of them as it likes into the message of its own topic."""
    key, pem = certificate("sns.amazonaws.com")
    claimed = {**CONFIRMATION, "Message": "forged", "Type": "x"}
    lines = "".join(f"{name}\n{claimed[name]}\n" for name in SIGNED)
    message = lines.removeprefix("Message\n").removesuffix("\n")
    genuine = f"Message\n{message}\nMessageId\n1\nTimestamp\n2\nTopicArn\n{OTHER}\nType\nNotification\n"
    signature = base64.b64encode(key.sign(genuine.encode(), padding.PKCS1v15(), hashes.SHA256())).decode()
    forged = {**claimed, "Type": genuine.removeprefix(lines.removesuffix("x\n")).removesuffix("\n"), "Signature": signature}

    app, stream = app_with(home, log=log, pem=pem, telemetry=telemetry, confirmations=Confirmations(telemetry.log))
    status = await posted(app, orjson.dumps(forged))
    await stream.close()

    assert "".join(f"{name}\n{forged[name]}\n" for name in SIGNED) == genuine
    assert status == 401


def app_with(home: Path, *, log: LogSettings, pem: bytes, telemetry: Telemetry, confirmations: Confirmations) -> tuple[App, EventStream]:
    source = {"scheme": "aws-sns", "secrets": ["file:secrets/sns"], "topics": [TOPIC], "confirm_subscriptions": True}
    write_home(home, log=log, tenants={"demo": {"sources": {"sns": source}}})
    (home / "secrets" / "sns").touch(mode=0o600)
    (home / "secrets" / "sns").write_bytes(pem)
    clock, stream = Clock(), EventStream.open(log, home=home)
    watch = LogWatch(log, home=home, stream=stream, telemetry=telemetry)
    watch.look()
    receiver = Receiver(
        settings=IngestSettings(),
        sources=Sources.from_settings(load_settings(home)),
        keeper=Keeper(Appender(stream, watch, telemetry), spool=None),
        telemetry=telemetry,
        clock=clock,
        ids=EventIds(clock),
        in_flight=InFlight(10, limit_bytes=100_000),
        confirmations=confirmations,
        rates=Rates(clock.monotonic),
        quarantine=Quarantine(stream, settings=QuarantineSettings(), ids=EventIds(clock), clock=clock, telemetry=telemetry),
    )
    return App(receiver), stream


def test_amazons_published_messages_are_believed_only_of_their_own_topic() -> None:
    for vector in vectors_of(FOLDER / "aws-sns.json"):
        content = orjson.loads(vector.body)

        refuse_other_topics(replace(ANSWERING, topics=frozenset({content["TopicArn"]})), content=content)
        with pytest.raises(BadSignature):
            refuse_other_topics(ANSWERING, content=content)
