"""`python -m ingest.send` against a real receiver."""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from infra.settings import LogSettings, environment_with
from ingest.describe import describe
from ingest.headers import Headers
from ingest.posting import SignedPost
from ingest.request import Request
from ingest.samples import content_type, sample, split_type
from ingest.scheme import Header, Scheme
from ingest.schemes import GENERIC, GITHUB, SCHEMES
from ingest.send import curl_line, receiver_url
from ingest.settings import IngestSettings
from schemas.event import StreamEvent
from tests.ingest.receivers import ROOT, SOURCES, RunningReceiver, write_home
from tests.ingest.vectors import FOLDER, vectors_of
from tests.ports import free_port

Stored = Callable[[], dict[str, StreamEvent]]
PUBLIC = [scheme for scheme in SCHEMES.values() if scheme.uses_public_key]
A_TOPIC = "arn:aws:sns:us-west-2:123456789012:MyTopic"


def send(home: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "ingest.send", *arguments],
        cwd=ROOT,
        env=environment_with({"HOOKLAKE_HOME": str(home)}),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


@pytest.fixture(scope="module")
def receiver_home(tmp_path_factory: pytest.TempPathFactory, receiver_log: LogSettings) -> Path:
    twiml = {"answer": {"status": 200, "body": "<Response/>", "content_type": "text/xml"}}
    own = {"twiml": SOURCES["billing"] | twiml, "quiet": SOURCES["billing"] | {"answer": {"status": 204}}}
    return write_home(tmp_path_factory.mktemp("receiver"), log=receiver_log, tenants={"demo": {"sources": SOURCES | own}})


@pytest.fixture
def url(receiver: RunningReceiver) -> str:
    return f"http://127.0.0.1:{receiver.port}"


def test_a_hundred_pushes_are_accepted_as_a_hundred_events(receiver_home: Path, url: str, stored: Stored) -> None:
    before = set(stored())

    ended = send(receiver_home, "github", "push", "--count", "100", "--url", url)

    assert ended.returncode == 0
    assert ended.stdout.startswith("sent 100: 100 accepted, 0 duplicates, 0 refused, in ")
    assert ended.stdout.count("\n") == 1
    new = [event for event_id, event in stored().items() if event_id not in before]
    assert len({event.delivery_id for event in new}) == 100
    assert {event.event_type for event in new} == {"github.push"}
    assert all(json.loads(event.payload)["repository"]["full_name"] == event.repository for event in new)


@pytest.mark.parametrize(
    ("source", "event_type", "stored_as"),
    [
        ("github", "pull_request", "github.pull_request.opened"),
        ("github", "github.pull_request.closed", "github.pull_request.closed"),
        ("github", "ping", "github.ping"),
        ("github", "issues.labeled", "github.issues.labeled"),
        ("billing", "invoice.paid", "billing.invoice.paid"),
    ],
)
def test_each_type_arrives_as_that_type(
    receiver_home: Path, url: str, stored: Stored, source: str, event_type: str, stored_as: str
) -> None:
    ended = send(receiver_home, source, event_type, "--url", url, "--json")

    outcome = json.loads(ended.stdout)
    assert (outcome["sent"], outcome["accepted"], outcome["refused"]) == (1, 1, 0)
    assert stored()[outcome["event_ids"][0]].event_type == stored_as


def test_a_file_is_sent_byte_for_byte(receiver_home: Path, url: str, stored: Stored, tmp_path: Path) -> None:
    file = tmp_path / "body"
    file.write_bytes(bytes(range(256)) * 10)

    ended = send(receiver_home, "billing", "blob", "--file", str(file), "--url", url, "--json")

    assert stored()[json.loads(ended.stdout)["event_ids"][0]].payload == file.read_bytes()


def test_a_refused_event_exits_with_1_and_the_reason(receiver_home: Path, url: str, tmp_path: Path) -> None:
    file = tmp_path / "body"
    file.write_text("garbage")

    ended = send(receiver_home, "github", "push", "--file", str(file), "--url", url)

    assert ended.returncode == 1
    assert "1 refused" in ended.stdout
    assert "the body is no JSON" in ended.stdout


@pytest.mark.parametrize("source", ["twiml", "quiet"])
def test_an_event_is_accepted_also_where_its_source_has_an_answer_of_its_own(receiver_home: Path, url: str, source: str) -> None:
    ended = send(receiver_home, source, "call.ended", "--count", "3", "--url", url)

    assert (ended.returncode, ended.stdout.partition(", in ")[0]) == (0, "sent 3: 3 accepted, 0 duplicates, 0 refused")


def test_a_receiver_that_is_not_there_exits_with_3_and_one_sentence(home: Path, log: LogSettings) -> None:
    write_home(home, log=log, ingest={"port": free_port()})

    ended = send(home, "github", "push", "--count", "20")

    assert (ended.returncode, ended.stdout) == (3, "")
    assert ended.stderr.count("\n") == 1
    assert "cannot be reached" in ended.stderr


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["githob", "push"], "did you mean github?"),
        (["github", "push", "--tenant", "demi"], "did you mean demo?"),
        (["github", "push", "--file", "/no/such/file"], "--file /no/such/file cannot be read"),
        (["github", "push", "--url", "receiver"], "is not like http://"),
        (["github", "pu\nsh"], r"TYPE 'pu\nsh' cannot stand in a header"),
        (["github", "pußh"], "TYPE 'pußh' cannot stand in a header"),
        (["github", "push", "--url", "http://a..b:1"], "--url 'http://a..b:1' is no address"),
    ],
)
def test_a_wrong_argument_exits_with_2_and_one_sentence(receiver_home: Path, arguments: list[str], said: str) -> None:
    ended = send(receiver_home, *arguments)

    assert ended.returncode == 2
    assert said in ended.stderr
    assert ended.stderr.count("\n") == 1


def test_the_curl_line_can_be_pasted(receiver_home: Path, url: str, stored: Stored) -> None:
    line = send(receiver_home, "github", "push", "--curl", "--url", url).stdout

    answers = [json.loads(subprocess.run(["sh", "-c", line], capture_output=True, timeout=30, check=True).stdout) for _ in range(2)]

    assert [answer["duplicate"] for answer in answers] == [False, True]
    assert stored()[answers[0]["event_id"]].event_type == "github.push"


def test_a_curl_line_survives_quotes_and_a_leading_at_sign() -> None:
    post = SignedPost("/hooks/a/b", {"x": "it's"}, b'@it\'s "quoted" $HOME `id`\n')

    words = shlex.split(curl_line(post, url="http://h:1"))

    assert words[-2:] == ["--data-raw", post.body.decode()]
    assert "x: it's" in words


@pytest.mark.parametrize("scheme", PUBLIC, ids=lambda scheme: scheme.name)
@pytest.mark.parametrize("arguments", [(), ("--curl",)], ids=["posted", "printed"])
def test_where_only_the_provider_can_sign_that_is_said(home: Path, scheme: Scheme, arguments: tuple[str, ...]) -> None:
    topics = {"topics": [A_TOPIC]} if scheme.secret_form == "certificate" else {}
    source = {"scheme": scheme.name, "secrets": ["file:secrets/public"], **topics}
    write_home(home, log=LogSettings(), tenants={"demo": {"sources": {"theirs": source}}})
    (home / "secrets" / "public").touch(mode=0o600)
    (home / "secrets" / "public").write_bytes(vectors_of(FOLDER / f"{scheme.name}.json")[0].secret)

    ended = send(home, "theirs", "Notification", *arguments)

    assert (ended.returncode, ended.stdout, ended.stderr.count("\n")) == (2, "", 1)
    assert f"scheme {scheme.name} is verified with a public key" in ended.stderr
    assert "only the provider has the private one that signs; nothing was sent" in ended.stderr


def test_where_certificates_are_fetched_only_the_provider_can_sign_either(home: Path) -> None:
    source = {"scheme": "aws-sns", "fetch_certificates": True, "topics": [A_TOPIC]}
    write_home(home, log=LogSettings(), tenants={"demo": {"sources": {"theirs": source}}})

    ended = send(home, "theirs", "Notification")

    assert (ended.returncode, ended.stderr.count("\n")) == (2, 1)
    assert "only the provider has the private one" in ended.stderr


@pytest.mark.parametrize("scheme", ["stripe", "discord"])
def test_a_curl_line_for_an_unsigned_source_has_no_signature(home: Path, scheme: str) -> None:
    write_home(home, log=LogSettings(), tenants={"demo": {"sources": {"open": {"scheme": scheme, "unsigned": True}}}})

    line = send(home, "open", "invoice.paid", "--curl", "--url", "http://127.0.0.1:1").stdout

    assert "invoice.paid" in line
    assert "signature" not in line


@pytest.mark.parametrize("scheme", SCHEMES.values(), ids=SCHEMES)
def test_a_sample_says_what_it_is_where_the_scheme_looks_for_it(scheme: Scheme) -> None:
    named = replace(scheme, namespace=scheme.namespace or "source", is_batch=False)
    headers = [(place.name.encode(), b"thing") for place in named.event_type + named.delivery_id if isinstance(place, Header)]
    body = sample(replace(named, demands_json=False), event_type="thing.created", number=1)

    request = Request(Headers([*headers, (b"content-type", content_type(named).encode())]), body)
    described = describe(named, request=request)

    assert described.event_type.startswith(f"{named.namespace}.thing" if named.event_type else f"{named.namespace}.received")
    assert bool(described.repository) == bool(named.repository) or named.name == "cloudevents"
    assert body != sample(replace(named, demands_json=False), event_type="thing.created", number=2)


def test_no_secret_is_printed(receiver_home: Path, url: str) -> None:
    ended = send(receiver_home, "github", "push", "--curl", "--url", url)

    assert "Everybody" not in ended.stdout + ended.stderr


def test_a_push_is_about_as_large_as_a_real_one() -> None:
    assert 4_000 < len(sample(GITHUB, event_type="push", number=1)) < 12_000


def test_every_number_has_another_body() -> None:
    assert len({sample(scheme, event_type="push", number=number) for number in range(50) for scheme in (GITHUB, GENERIC)}) == 100


def test_types_are_read_with_and_without_the_providers_name() -> None:
    assert (
        split_type("pull_request.closed", scheme=GITHUB)
        == split_type("github.pull_request.closed", scheme=GITHUB)
        == ("pull_request", "closed")
    )
    assert split_type("invoice.paid", scheme=GENERIC) == ("invoice.paid", "")


@pytest.mark.parametrize(("host", "url"), [("0.0.0.0", "http://127.0.0.1:8080"), ("::1", "http://[::1]:8080"), ("h", "http://h:8080")])
def test_the_receiver_is_looked_for_where_it_can_be_reached(host: str, url: str) -> None:
    assert receiver_url(IngestSettings(host=host)) == url
