"""`hooklake quarantine`, run as an operator runs it, after a receiver has refused requests."""

from __future__ import annotations

import asyncio
import base64
import gzip
import json
import signal
import subprocess
import sys
import uuid
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest
import yaml

from infra.settings import LogSettings, environment_with
from infra.streams.letter_filter import LetterFilter
from infra.streams.quarantine import QuarantinedRequests
from infra.streams.stream import EventStream
from schemas.event import StreamEvent
from schemas.quarantined import QuarantinedRequest
from tests.ingest.receivers import PUSH, ROOT, RunningReceiver, post, post_push, signed_headers, wait_until, write_home
from tests.ingest.test_subscriptions import CONFIRMATION, certificate, signed

Refuse = Callable[..., str]
Command = Callable[..., subprocess.CompletedProcess[str]]
Stored = Callable[[], dict[str, StreamEvent]]
NEW_SECRET = b"a secret that was put in only later"


@pytest.fixture
def run(receiver_home: Path) -> Command:
    def command(*arguments: str, module: str = "ingest.release", **settings: str) -> subprocess.CompletedProcess[str]:
        environment = environment_with({"HOOKLAKE_HOME": str(receiver_home), **settings})
        return subprocess.run(
            [sys.executable, "-m", module, *arguments], cwd=ROOT, env=environment, capture_output=True, text=True, timeout=60, check=False
        )

    return command


def listed(run: Command, *arguments: str) -> list[dict[str, str]]:
    found = run("list", "--json", *arguments)
    assert found.returncode == 0, found.stderr
    rows: list[dict[str, str]] = json.loads(found.stdout)
    return rows


@pytest.fixture
def refuse(receiver: RunningReceiver, receiver_log: LogSettings, receiver_home: Path) -> Iterator[Refuse]:
    """Sends one request that is refused; its id in the quarantine."""
    requests = QuarantinedRequests.open(receiver_log, home=receiver_home)

    def ids() -> set[str]:
        return {request.id for request in requests.entries(LetterFilter())}

    def send(*, secret: bytes = NEW_SECRET, body: bytes = PUSH, status: int = 401, **headers: str) -> str:
        before = ids()
        assert post(receiver.port, body=body, headers=signed_headers(body, secret=secret, cookie="a=b", **headers)).status == status
        wait_until(lambda: len(ids()) == len(before) + 1, what="it is kept aside")
        (name,) = ids() - before
        return name

    yield send
    requests.close()


@pytest.fixture
def with_new_secret(receiver_home: Path) -> None:
    """The settings as an operator has mended them; the receiver that runs still has the old ones."""
    path = receiver_home / "secrets" / "new"
    path.touch(mode=0o600)
    path.write_bytes(NEW_SECRET)
    mend(receiver_home, secrets=["file:secrets/github", "file:secrets/new"])


def mend(receiver_home: Path, **changes: object) -> None:
    file = receiver_home / "hooklake.yaml"
    settings = yaml.safe_load(file.read_text())
    settings["tenants"]["demo"]["sources"]["github"].update(changes)
    file.write_text(yaml.safe_dump(settings))


def test_a_refused_request_is_shown_without_its_secrets(refuse: Refuse, run: Command) -> None:
    name = refuse()

    shown = json.loads(run("show", name).stdout)
    table = run("list").stdout

    assert (shown["code"], shown["state"], shown["tenant_id"], shown["source"]) == ("bad_signature", "open", "demo", "github")
    assert base64.b64decode(shown["body"]) == PUSH
    assert ("cookie" in shown["headers"], shown["removed_headers"]) == (False, ["cookie"])
    assert name in table


def test_what_does_not_verify_stays_and_the_command_says_why(refuse: Refuse, run: Command) -> None:
    name = refuse(secret=b"a secret that nobody knows")

    done = run("release", name)

    assert done.returncode == 1
    assert "0 of 1 refused requests released (1 are refused again)" in done.stdout
    assert "demo/github: none of the" in done.stdout
    assert name in {row["id"] for row in listed(run)}


@pytest.mark.usefixtures("with_new_secret")
@pytest.mark.fault("QUARANTINE")
def test_what_verifies_with_todays_secrets_is_let_in_once_with_its_time_of_receipt(refuse: Refuse, run: Command, stored: Stored) -> None:
    name = refuse()
    before = set(stored())

    look = run("release", name, "--dry-run", "--json")
    untouched = set(stored())
    first, second = run("release", name), run("release", name)

    shown = json.loads(run("show", name).stdout)
    (event,) = (event for event_id, event in stored().items() if event_id not in before)
    assert (json.loads(look.stdout)["would_be_released"], untouched) == (1, before)
    assert (first.returncode, first.stdout) == (0, "1 of 1 refused requests released\n")
    assert (second.returncode, second.stdout) == (0, "0 of 1 refused requests released (1 were released before)\n")
    assert (event.id, event.payload, event.event_type) == (shown["event_id"], PUSH, "github.push")
    assert (event.timestamp.isoformat().replace("+00:00", "Z"), shown["state"]) == (shown["received_at"], "released")
    assert event.auth_context.verified_at > event.timestamp


@pytest.mark.usefixtures("with_new_secret")
def test_what_came_compressed_is_let_in_when_its_source_may_send_so(
    refuse: Refuse, run: Command, stored: Stored, receiver_home: Path
) -> None:
    body = gzip.compress(PUSH)
    name = refuse(body=body, status=415, content_encoding="gzip")
    before = set(stored())

    refused_again = run("release", name)
    mend(receiver_home, encodings=["gzip"])
    done = run("release", name)

    (event,) = (event for event_id, event in stored().items() if event_id not in before)
    assert (refused_again.returncode, done.returncode) == (1, 0)
    assert (event.payload, event.event_type, event.headers["content-encoding"]) == (body, "github.push", "gzip")


@pytest.mark.usefixtures("with_new_secret")
@pytest.mark.fault("QUARANTINE")
@pytest.mark.parametrize(("failpoint", "events"), [("begin_release.after", 0), ("decide_quarantined.before", 1)])
def test_a_release_that_dies_half_way_is_repeated_and_appends_nothing_twice(
    refuse: Refuse, run: Command, stored: Stored, failpoint: str, events: int
) -> None:
    name = refuse()
    before = set(stored())

    killed = run("release", name, HOOKLAKE_FAILPOINT=f"{failpoint}=kill")
    appended = set(stored()) - before
    discarding = run("discard", name, "--because", "a scan")
    still_open = name in {row["id"] for row in listed(run)}
    again = run("release", name)

    assert killed.returncode == -signal.SIGKILL
    assert len(appended) == events
    assert (discarding.returncode, "1 may be on the log already" in discarding.stdout, still_open) == (1, True, True)
    assert again.stdout == "1 of 1 refused requests released\n"
    assert len(set(stored()) - before) == 1
    assert set(stored()) >= appended


@pytest.mark.parametrize("arguments", [(), ("--json",)], ids=["for people", "for machines"])
def test_a_subscription_that_could_not_be_confirmed_is_told_and_exits_with_1(
    log: LogSettings, home: Path, arguments: tuple[str, ...]
) -> None:
    # Of a name that is too long for any resolver, so that nobody is asked.
    topic = f"arn:aws:sns:eu-{'a' * 70}-1:123456789012:alarms"
    key, pem = certificate("sns.amazonaws.com")
    source = {"scheme": "aws-sns", "secrets": ["file:secrets/sns"], "topics": [topic], "confirm_subscriptions": True}
    write_home(home, log=log, tenants={"demo": {"sources": {"sns": source}}})
    (home / "secrets" / "sns").touch(mode=0o600)
    (home / "secrets" / "sns").write_bytes(pem)
    asyncio.run(keep_aside(signed(key, {**CONFIRMATION, "TopicArn": topic}), log=log, home=home))

    done = subprocess.run(
        [sys.executable, "-m", "ingest.release", "release", "--all", "--yes", *arguments],
        cwd=ROOT, env=environment_with({"HOOKLAKE_HOME": str(home)}), capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip

    assert done.returncode == 1, done.stderr
    if arguments:
        outcome = json.loads(done.stdout)
        assert (outcome["released"], list(outcome["subscriptions"]), bool(outcome["subscriptions"][topic])) == (1, [topic], True)
    else:
        assert done.stdout.startswith(f"1 of 1 refused requests released\n  the subscription to {topic} is NOT confirmed (")
        assert done.stdout.endswith("let Amazon ask again from its console, or open the `SubscribeURL` of the stored event\n")


async def keep_aside(body: bytes, *, log: LogSettings, home: Path) -> None:
    stream = EventStream.open(log, home=home)
    refused = QuarantinedRequest(
        event_id="019bc1a0-0000-7000-8000-000000000001",
        tenant_id="demo",
        source="sns",
        code="bad_signature",
        reason="",
        received_at=datetime(2026, 1, 15, 12, tzinfo=UTC),
        body=body,
    )
    assert await stream.quarantine(refused, cap=10, cap_bytes=10**6)
    await stream.close()


def test_discarding_leaves_a_record_and_needs_a_reason(refuse: Refuse, run: Command) -> None:
    name = refuse(body=b'{"scan": "%b"}' % uuid.uuid4().hex.encode())

    without, done, again = run("discard", name), run("discard", name, "--because", "a scan"), run("discard", name, "--because", "x")

    shown = json.loads(run("show", name).stdout)
    assert (without.returncode, "--because" in without.stderr) == (2, True)
    assert (done.stdout, again.returncode) == ("1 of 1 refused requests discarded\n", 1)
    assert (shown["state"], shown["because"]) == ("discarded", "a scan")
    assert name not in {row["id"] for row in listed(run)}
    assert name in {row["id"] for row in listed(run, "--state", "discarded")}


def test_all_is_counted_before_anything_is_done(refuse: Refuse, run: Command) -> None:
    refuse(secret=b"a secret that nobody knows")
    count = len(listed(run))

    dry = run("discard", "--all", "--dry-run")
    unasked = run("discard", "--all", "--because", "tests")
    done = run("discard", "--all", "--because", "tests", "--yes", "--json")

    assert dry.stdout == f"{count} refused requests would be discarded\n"
    assert (unasked.returncode, "--yes" in unasked.stderr) == (2, True)
    assert json.loads(done.stdout)["discarded"] == count
    assert listed(run) == []


@pytest.mark.parametrize(
    "arguments", [("release",), ("release", "x", "--all"), ("release", "0-1-1", "--limit", "1"), ("list", "--state", "odd")]
)
def test_what_is_not_clear_is_refused(run: Command, arguments: tuple[str, ...]) -> None:
    assert run(*arguments).returncode == 2


def test_a_name_that_nothing_has_is_told(run: Command) -> None:
    done = run("show", "0-1-1")

    assert (done.returncode, "no refused request is called 0-1-1" in done.stderr) == (1, True)


def test_status_counts_them(receiver: RunningReceiver, refuse: Refuse, run: Command) -> None:
    refuse(secret=b"a secret that nobody knows")

    shown = json.loads(run("--json", module="infra.running.status").stdout)

    assert shown["quarantined"] == len(listed(run)) > 0
    assert post_push(receiver.port).status == 202
