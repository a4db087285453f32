"""A real receiver with a source of every scheme that we can sign: who is believed, and what is remembered about it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from infra.clock import Clock
from infra.settings import LogSettings, load_settings
from ingest.posting import SignedPost, sign_post
from ingest.samples import sample
from ingest.schemes import SCHEMES
from ingest.sources import Source, Sources
from schemas.event import StreamEvent
from tests.ingest.receivers import DEADLINE_S, Answer, RunningReceiver, post, start_receiver, wait_until, write_home

Stored = Callable[[], dict[str, StreamEvent]]
URL = "https://hooks.example.com/as/the/sender/has/it"
SIGNABLE = [scheme.name for scheme in SCHEMES.values() if not scheme.uses_public_key]


def source_of(scheme: str, *, secret: str) -> dict[str, Any]:
    is_decoded = SCHEMES[scheme].secret_form == "base64"
    return {
        "scheme": scheme,
        "secrets": [f"file:secrets/{secret}-encoded" if is_decoded else f"file:secrets/{secret}"],
        "public_url": URL,
        **({"header": "X-Signature"} if scheme == "generic" else {}),
    }


@pytest.fixture(scope="module")
def receiver_home(tmp_path_factory: pytest.TempPathFactory, receiver_log: LogSettings) -> Path:
    demo, twin = ({scheme: source_of(scheme, secret=secret) for scheme in SIGNABLE} for secret in ("generic", "other"))
    tenants = {"demo": {"sources": {**demo, "open": {"scheme": "github", "unsigned": True}}}, "twin": {"sources": twin}}
    ingest = {"port": 0, "ops_port": 0, "trusted_proxies": ["127.0.0.0/8"]}
    home = write_home(tmp_path_factory.mktemp("believing"), log=receiver_log, tenants=tenants, ingest=ingest)
    for name, text in (("generic-encoded", "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"), ("other-encoded", "whsec_" + "QUJDREVG" * 4)):
        (home / "secrets" / name).touch(mode=0o600)
        (home / "secrets" / name).write_text(text)
    return home


@pytest.fixture(scope="module")
def receiver(receiver_home: Path) -> Iterator[RunningReceiver]:
    running = start_receiver(receiver_home)
    wait_until(lambda: post(running.port, body=b"", headers={}, path="/readyz", method="GET").status == 200, what="the receiver is ready")
    yield running
    running.stop()
    running.process.wait(timeout=DEADLINE_S)


@pytest.fixture(scope="module")
def sources(receiver_home: Path) -> Sources:
    return Sources.from_settings(load_settings(receiver_home))


def signed(source: Source, *, later: timedelta = timedelta()) -> SignedPost:
    body = sample(source.scheme, event_type="thing.happened", number=1)
    return sign_post(source, event_type="thing.happened", body=body, now=Clock().now() + later)


def sent(receiver: RunningReceiver, request: SignedPost, *, path: str = "", **changes: str) -> Answer:
    headers = {**request.headers, **{name.replace("_", "-"): value for name, value in changes.items()}}
    return post(receiver.port, body=request.body, headers=headers, path=path or request.path)


@pytest.mark.parametrize("scheme", SIGNABLE)
def test_what_is_signed_like_the_provider_is_accepted_once(
    receiver: RunningReceiver, sources: Sources, stored: Stored, scheme: str
) -> None:
    source = sources.find("demo", source=scheme)
    request = signed(source)

    first, second = sent(receiver, request), sent(receiver, request)

    assert first.status == source.scheme.answered, first.body
    event = stored()[first.json["event_id"]]
    assert event.payload == (request.body[1:-1] if source.splits else request.body)  # A batch of one, split.
    assert (event.auth_context.scheme, event.auth_context.key_id) == (scheme, source.secrets[0].key_id)
    assert event.auth_context.signed_url == (URL if source.scheme.is_url_bound else "")
    assert event.event_type.startswith(f"{source.scheme.namespace}.")
    assert second.json["duplicate"] is (scheme != "generic")  # Whose settings name no delivery id here.


@pytest.mark.parametrize("scheme", SIGNABLE)
def test_what_one_tenants_secret_signed_is_refused_on_the_route_of_another(
    receiver: RunningReceiver, sources: Sources, scheme: str
) -> None:
    """The secret is found by the route, and by nothing in the request."""
    answer = sent(receiver, signed(sources.find("demo", source=scheme)), path=f"/hooks/twin/{scheme}")

    assert (answer.status, answer.code) == (401, "bad_signature")
    assert answer.json["error"]["message"] == "no active secret of this source made the signature of this request"


@pytest.mark.parametrize("scheme", [name for name in SIGNABLE if SCHEMES[name].timestamp])
def test_a_stale_request_is_refused_in_the_same_words(receiver: RunningReceiver, sources: Sources, scheme: str) -> None:
    source = sources.find("demo", source=scheme)
    beyond = timedelta(seconds=source.scheme.tolerance_s + 30)

    answers = [sent(receiver, signed(source, later=later)) for later in (-beyond, beyond)]

    assert [(answer.status, answer.json["error"]["message"]) for answer in answers] == [
        (401, "no active secret of this source made the signature of this request")
    ] * 2


def test_an_unsigned_source_takes_what_comes_and_says_so(receiver: RunningReceiver, stored: Stored) -> None:
    headers = {"x-github-event": "push", "x-github-delivery": "u-1", "x-hub-signature-256": "sha256=00"}

    answer = post(receiver.port, body=b"{}", headers=headers, path="/hooks/demo/open")

    context = stored()[answer.json["event_id"]].auth_context
    assert (context.scheme, context.key_id, context.signature_headers) == ("unsigned", "", {})


def test_the_sender_behind_a_trusted_proxy_is_remembered(receiver: RunningReceiver, sources: Sources, stored: Stored) -> None:
    answer = sent(receiver, signed(sources.find("demo", source="github")), x_forwarded_for="1.1.1.1, 203.0.113.9")

    assert stored()[answer.json["event_id"]].auth_context.remote_address == "203.0.113.9"


def test_a_secret_that_is_in_use_is_written_down_once(receiver: RunningReceiver, sources: Sources) -> None:
    source = sources.find("demo", source="github")

    for _ in range(3):
        assert sent(receiver, signed(source)).status == 202

    lines = [line for line in receiver.said("secret in use") if line["source"] == "github" and line["tenant"] == "demo"]
    assert [line["key_id"] for line in lines] == [source.secrets[0].key_id]
