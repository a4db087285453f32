"""What is refused is kept aside without secrets, in the background, and no faster than it may."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from infra.clock import Clock, EventIds
from infra.sections import QuarantineSettings
from infra.settings import LogSettings, load_settings
from infra.streams.letter_filter import LetterFilter
from infra.streams.overview import Overview, read_overview
from infra.streams.quarantine import QuarantinedRequests
from infra.streams.stream import EventStream
from infra.telemetry import Telemetry
from ingest.headers import Headers
from ingest.quarantine import MOST_WAITING, Quarantine, kept_headers
from ingest.request import Request
from ingest.scheme import Header, Scheme
from ingest.schemes import GENERIC, SCHEMES
from ingest.sources import Source, Sources
from schemas.errors import BadSignature, BodyTooLarge, Refused
from schemas.quarantined import QuarantinedRequest
from tests.ingest.receivers import write_home
from tests.ingest.vectors import Vector, all_vectors

RECEIVED = datetime(2026, 11, 1, 12, tzinfo=UTC)
BAD = BadSignature("none of the secrets")
SIGNED = [vector for vector in all_vectors() if vector.scheme.algorithm != "token"]
NOT_KEPT = (
    "authorization", "proxy-authorization", "cookie", "x-auth", "x-auth-key", "x-auth-token", "x-amzn-oidc-data", "x-sso-assertion",
    "cf-access-jwt-assertion", "x-api-key", "apikey", "ocp-apim-subscription-key", "x-functions-key", "x-session-id", "x-gitlab-token",
    "x-amz-security-token", "x-hook-secret", "x-password", "x-passphrase", "x-credential", "x-bearer", "x-saml-response", "x-csrf",
    "php-auth-pwd", "x-vercel-protection-bypass",
)  # fmt: skip
KEPT = (
    "x-event-key", "idempotency-key", "i-twilio-idempotency-token", "x-gitlab-event-uuid", "x-hub-signature-256", "stripe-signature",
    "webhook-id", "webhook-timestamp", "ce-id", "content-type", "user-agent", "x-acme-signature", "x-acme-delivery", "x-odd",
    "x-auth-signature",
)  # fmt: skip


@pytest.fixture
def source(home: Path, log: LogSettings) -> Source:
    return Sources.from_settings(load_settings(write_home(home, log=log))).find("demo", source="github")


def quarantine(log: LogSettings, *, home: Path, telemetry: Telemetry, **settings: float) -> tuple[Quarantine, EventStream]:
    clock = Clock(monotonic=lambda: 1000.0)
    stream = EventStream.open(log, home=home)
    kept = QuarantineSettings.model_validate(settings)
    return Quarantine(stream, settings=kept, ids=EventIds(clock), clock=clock, telemetry=telemetry), stream


def take_in(into: Quarantine, source: Source, *, error: Refused = BAD, body: bytes = b"{}") -> None:
    raw = [(b"cookie", b"a=b"), (b"x-odd", b"1"), (b"x-odd", b"2"), (b"x-hub-signature-256", b"sha256=00")]
    into.take_in(
        source, request=Request(Headers(raw), body, query="token=x"), error=error, received_at=RECEIVED, remote_address="192.0.2.1"
    )


async def counted(log: LogSettings, *, home: Path) -> Overview:
    return await asyncio.to_thread(read_overview, log, home=home)


def found_on(log: LogSettings, *, home: Path) -> list[QuarantinedRequest]:
    requests = QuarantinedRequests.open(log, home=home)
    try:
        return list(requests.entries(LetterFilter()))
    finally:
        requests.close()


@pytest.mark.parametrize("name", NOT_KEPT)
def test_a_header_whose_name_speaks_of_a_secret_is_not_kept(name: str) -> None:
    sent = {name: "x", "user-agent": "u"}

    kept, removed = kept_headers(SCHEMES["github"], headers=sent)

    assert (kept, removed) == ({"user-agent": "u"}, (name,))


@pytest.mark.parametrize("name", KEPT)
def test_a_header_that_any_scheme_reads_and_one_that_speaks_of_no_secret_are_kept(name: str) -> None:
    """The source's own scheme may be the wrong one, and be mended before the release."""
    assert kept_headers(SCHEMES["github"], headers={name: "x"}) == ({name: "x"}, ())


def test_of_a_generic_source_what_its_settings_name_is_kept_unless_it_is_the_secret_or_its_place() -> None:
    signed = replace(GENERIC, signature=Header("x-auth-signature"), delivery_id=(Header("x-session-id"),))
    shown = replace(GENERIC, signature=Header("x-odd"), algorithm="token", delivery_id=(Header("idempotency-key"),))
    sent = dict.fromkeys(("x-auth-signature", "x-session-id", "x-odd", "idempotency-key"), "x")

    assert kept_headers(signed, headers=sent)[1] == ()
    assert kept_headers(shown, headers=sent)[1] == ("x-odd", "x-session-id")
    assert kept_headers(replace(signed, signature=Header("authorization")), headers={"authorization": "HMAC x"})[0] == {}


@pytest.mark.parametrize("scheme", SCHEMES.values(), ids=lambda scheme: scheme.name)
def test_of_every_scheme_the_proof_is_kept_unless_it_is_the_secret_itself(scheme: Scheme) -> None:
    names = dict.fromkeys(scheme.proof_headers, "x")
    shown = getattr(scheme.signature, "name", "")

    kept, removed = kept_headers(scheme, headers={**names, **({shown: "x"} if shown else {})})

    assert kept == names
    assert removed == (() if shown in names or not shown else (shown,))


@pytest.mark.parametrize("vector", SIGNED, ids=lambda vector: vector.scheme.name)
@pytest.mark.parametrize("mistaken", [None, replace(GENERIC, signature=Header("x-wrong"))], ids=["as it is", "mended later"])
def test_what_is_kept_of_a_signed_request_verifies_later(vector: Vector, mistaken: Scheme | None) -> None:
    others = (("authorization", "Bearer x"), ("x-api-key", "x"))

    kept, removed = kept_headers(mistaken or vector.scheme, headers=dict((*vector.headers, *others)))

    assert removed == ("authorization", "x-api-key")
    assert replace(vector, headers=tuple(kept.items())).is_believed


@pytest.mark.parametrize("scheme", SCHEMES.values(), ids=lambda scheme: scheme.name)
def test_of_every_scheme_the_headers_are_kept_that_name_a_delivery_and_its_type(scheme: Scheme) -> None:
    """Else a request that is released and one that its sender repeats would be two events."""
    names = dict.fromkeys(scheme.kept_headers, "x")

    assert kept_headers(scheme, headers=names) == (names, ())


async def test_no_secret_of_a_header_reaches_the_log(log: LogSettings, home: Path, telemetry: Telemetry, source: Source) -> None:
    kept, stream = quarantine(log, home=home, telemetry=telemetry)
    headers = Headers([(name.encode(), b"s3cr3t") for name in NOT_KEPT])

    kept.take_in(source, request=Request(headers, b"{}"), error=BAD, received_at=RECEIVED, remote_address="192.0.2.1")
    await kept.step()
    await stream.close()

    (found,) = found_on(log, home=home)
    assert "s3cr3t" not in found.model_dump_json()
    assert found.removed_headers == tuple(sorted(NOT_KEPT))


async def test_a_refused_request_is_brought_to_the_log(log: LogSettings, home: Path, telemetry: Telemetry, source: Source) -> None:
    kept, stream = quarantine(log, home=home, telemetry=telemetry)

    take_in(kept, source, body=b"\xff\x00")
    await kept.step()
    await stream.close()

    (found,) = found_on(log, home=home)
    assert (found.tenant_id, found.source, found.code, found.reason) == ("demo", "github", "bad_signature", "none of the secrets")
    assert (found.body, found.received_at, found.remote_address, found.query) == (b"\xff\x00", RECEIVED, "192.0.2.1", "")
    assert (found.headers, found.removed_headers) == ({"x-odd": "1", "x-hub-signature-256": "sha256=00"}, ("cookie",))
    assert found.repeated_headers == ("x-odd",)
    assert (await counted(log, home=home)).quarantined == 1


async def test_what_never_arrived_whole_is_not_kept(log: LogSettings, home: Path, telemetry: Telemetry, source: Source) -> None:
    kept, stream = quarantine(log, home=home, telemetry=telemetry)

    take_in(kept, source, error=BodyTooLarge("too large"))
    await kept.step()
    await stream.close()

    assert found_on(log, home=home) == []


async def test_a_flood_is_kept_no_faster_than_it_may_and_the_rest_is_counted(
    log: LogSettings, home: Path, telemetry: Telemetry, source: Source
) -> None:
    kept, stream = quarantine(log, home=home, telemetry=telemetry, burst=3)

    for _ in range(10):
        take_in(kept, source)
    await kept.step()
    await stream.close()

    overview = await counted(log, home=home)
    assert (overview.quarantined, overview.unkept) == (3, 7)
    assert "queue_messages_unkept_total" in telemetry.metrics_page().decode()


async def test_what_waits_is_bounded(log: LogSettings, home: Path, telemetry: Telemetry, source: Source) -> None:
    kept, stream = quarantine(log, home=home, telemetry=telemetry, burst=10_000)

    for _ in range(MOST_WAITING + 5):
        take_in(kept, source)
    await kept.step()
    await stream.close()

    assert (await counted(log, home=home)).unkept == 5


async def test_without_a_log_it_is_dropped_and_told_when_the_log_is_back(
    log: LogSettings, home: Path, telemetry: Telemetry, source: Source
) -> None:
    away = log.model_copy(update={"url": "redis://127.0.0.1:1/0"})
    kept, stream = quarantine(away, home=home, telemetry=telemetry)
    take_in(kept, source)
    await kept.step()
    await stream.close()

    kept._stream = EventStream.open(log, home=home)
    await kept.step()
    await kept._stream.close()

    overview = await counted(log, home=home)
    assert (overview.quarantined, overview.unkept) == (0, 1)


async def test_a_cap_of_zero_keeps_nothing(log: LogSettings, home: Path, telemetry: Telemetry, source: Source) -> None:
    kept, stream = quarantine(log, home=home, telemetry=telemetry, cap=0)

    take_in(kept, source)
    await kept.step()
    await stream.close()

    overview = await counted(log, home=home)
    assert (overview.quarantined, overview.unkept) == (0, 0)
