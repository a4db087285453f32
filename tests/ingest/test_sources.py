"""Mistakes in the settings are found at start, and named."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import orjson
import pytest
import yaml

from infra.clock import Clock
from infra.settings import load_settings
from ingest.headers import Headers
from ingest.keys import key_id_of
from ingest.request import Request
from ingest.scheme import Header
from ingest.schemes import SCHEMES
from ingest.sources import Sources
from schemas.errors import BadSignature, ConfigError, UnknownSource
from schemas.event import Priority

GITHUB: dict[str, Any] = {"scheme": "github", "secrets": ["file:secrets/good"]}
GENERIC: dict[str, Any] = {"scheme": "generic", "secrets": ["file:secrets/good"], "header": "X-Signature"}


def load(home: Path, source: object, *, name: str = "hook", tenant: str = "demo") -> Sources:
    secrets = {"good": b"0123456789abcdef\n", "empty": b"\n", "short": b"0123456789abcde", "stars": b"*" * 24}
    (home / "secrets").mkdir(exist_ok=True)
    for file, value in secrets.items():
        path = home / "secrets" / file
        path.touch(mode=0o600)
        path.write_bytes(value)
    (home / "hooklake.yaml").write_text(yaml.safe_dump({"tenants": {tenant: {"sources": {name: source}}}}))
    return Sources.from_settings(load_settings(home))


def test_a_configured_source_is_found_by_tenant_and_name(home: Path) -> None:
    source = load(home, {**GITHUB, "priority": "low"}).find("demo", source="hook")

    assert (source.tenant, source.name, source.scheme.name, source.priority) == ("demo", "hook", "github", Priority.LOW)
    assert isinstance(source.priority, Priority)
    assert [secret.key_id for secret in source.secrets] == [key_id_of(b"0123456789abcdef")]


def test_unknown_tenants_and_unknown_sources_are_told_the_same(home: Path) -> None:
    sources = load(home, GITHUB)

    with pytest.raises(UnknownSource) as no_source:
        sources.find("demo", source="other")
    with pytest.raises(UnknownSource) as no_tenant:
        sources.find("other", source="hook")

    assert str(no_source.value) == str(no_tenant.value)


def test_the_cap_on_a_body_is_the_sources_else_the_schemes_else_the_receivers(home: Path) -> None:
    caps = [load(home, source).find("demo", source="hook").max_body_bytes for source in ({**GITHUB, "max_body_bytes": 7}, GITHUB, GENERIC)]

    assert caps == [7, 25 * 1024 * 1024, 1024 * 1024]


def test_a_generic_source_is_made_from_its_settings(home: Path) -> None:
    described = {**GENERIC, "prefix": "v1=", "encoding": "base64", "algorithm": "sha512", "delivery_id_header": "X-Id", "body": "json"}

    scheme = load(home, described, name="billing").find("demo", source="billing").scheme

    assert (scheme.signature, scheme.prefix, scheme.encoding, scheme.algorithm) == (Header("x-signature"), "v1=", "base64", "sha512")
    assert (scheme.delivery_id, scheme.demands_json, scheme.namespace) == ((Header("x-id"),), True, "billing")


@pytest.mark.parametrize(
    ("source", "said"),
    [
        pytest.param({**GITHUB, "scheme": "githob"}, r"tenants\.demo\.sources\.hook\.scheme.*did you mean github\?", id="unknown scheme"),
        pytest.param({"secrets": ["file:secrets/good"]}, r"tenants\.demo\.sources\.hook\.scheme is missing", id="no scheme"),
        pytest.param({"scheme": "github"}, r"tenants\.demo\.sources\.hook\.secrets is empty.*does not start", id="no secrets"),
        pytest.param({**GITHUB, "secrets": []}, r"tenants\.demo\.sources\.hook\.secrets is empty", id="empty list of secrets"),
        pytest.param({**GITHUB, "secrets": ["file:secrets/none"]}, r"hook\.secrets\[0\].*cannot be read", id="missing secret"),
        pytest.param({**GITHUB, "secrets": ["env:HOOKLAKE_NO_SUCH"]}, r"hook\.secrets\[0\].*HOOKLAKE_NO_SUCH", id="missing variable"),
        pytest.param(
            {**GITHUB, "secrets": ["file:secrets/good", "file:secrets/empty"]}, r"hook\.secrets\[1\].*is empty", id="empty secret"
        ),
        pytest.param({**GITHUB, "secrets": ["file:secrets/short"]}, r"hook\.secrets\[0\].*15 bytes.*guessed", id="short secret"),
        pytest.param({**GITHUB, "secrets": ["file:secrets/stars"]}, r"hook\.secrets\[0\].*placeholder.*guessed", id="placeholder"),
        pytest.param({**GITHUB, "secrets": ["hunter2hunter2hunter2"]}, r"hook\.secrets\[0\] must be a reference", id="secret in the file"),
        pytest.param({**GITHUB, "secretz": 1}, r"hook\.secretz is not a setting; did you mean secrets\?", id="unknown key"),
        pytest.param({**GITHUB, "header": "X-A"}, r"hook\.header belongs to scheme generic", id="setting of another scheme"),
        pytest.param({"scheme": "generic", "secrets": ["file:secrets/good"]}, r"hook\.header is missing", id="generic without header"),
        pytest.param({**GENERIC, "header": "X A"}, r"hook\.header is wrong", id="header name"),
        pytest.param({**GITHUB, "scheme": "twilio"}, r"hook\.public_url is missing.*signs the address", id="no address"),
        pytest.param({**GITHUB, "public_url": "hooks.example.com"}, r"hook\.public_url is wrong", id="no address at all"),
        pytest.param({**GITHUB, "public_url": "https://h/x?a=1"}, r"hook\.public_url is wrong", id="an address with a query"),
        pytest.param({**GITHUB, "public_url": "https://h:99999/x"}, r"hook\.public_url=https://h:99999/x is no address", id="no port"),
        pytest.param({**GITHUB, "public_url": "https://h:port/x"}, r"hook\.public_url=https://h:port/x is no address", id="no number"),
        pytest.param({**GITHUB, "public_url": "https://[::1/x"}, r"hook\.public_url=https://\[::1/x is no address", id="half an address"),
        pytest.param({**GITHUB, "public_url": "https:///x"}, r"hook\.public_url=https:///x is no address", id="no host"),
        pytest.param({**GITHUB, "scheme": "discord"}, r"hook\.secrets\[0\].*Ed25519 public key of 64 hex digits", id="no public key"),
        pytest.param({**GITHUB, "scheme": "aws-sns"}, r"hook\.topics is missing.*everybody's topics would be believed", id="no topics"),
        pytest.param(
            {**GITHUB, "fetch_certificates": True}, r"hook\.fetch_certificates stands in the place of secrets", id="nothing to fetch"
        ),
        pytest.param({**GITHUB, "unsigned": True}, r"hook\.unsigned is set beside secrets.*take one of the two out", id="both"),
        pytest.param({"scheme": "github", "unsigned": "yes please"}, r"hook\.unsigned is wrong", id="unsigned by a word"),
        # Who only looks into the file, as the listings do, finds nothing there but `true`.
        pytest.param({"scheme": "github", "unsigned": "true"}, r"hook\.unsigned is wrong", id="unsigned by a text"),
        pytest.param({"scheme": "github", "unsigned": 1}, r"hook\.unsigned is wrong", id="unsigned by a number"),
        pytest.param({**GITHUB, "tolerance_ms": 60_000}, r"hook\.tolerance_ms has no effect", id="no time is signed"),
        pytest.param({**GENERIC, "encoding": "base32"}, r"hook\.encoding is wrong", id="encoding"),
        pytest.param({**GITHUB, "priority": "overflow"}, r"hook\.priority is wrong", id="a stream that is not for senders"),
        pytest.param({**GITHUB, "max_body_bytes": 0}, r"hook\.max_body_bytes is wrong", id="cap"),
    ],
)
def test_a_mistake_is_named_with_its_consequence(home: Path, source: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        load(home, source)


async def test_a_source_that_fetches_certificates_does_so_for_its_own_topics_only(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []
    monkeypatch.setattr("ingest.certificates.fetched", asked.append)
    topic = "arn:aws:sns:eu-central-1:123456789012:alarms"
    source = load(home, {"scheme": "aws-sns", "fetch_certificates": True, "topics": [topic]}).find("demo", source="hook")
    address = "https://sns.eu-central-1.amazonaws.com/SimpleNotificationService-7f.pem"
    message = Request(Headers([]), orjson.dumps({"TopicArn": f"{topic}-2", "SigningCertURL": address}))

    assert source.certificates is not None
    with pytest.raises(BadSignature, match="not among the source's topics"):
        await source.certificates.obtain(message, now=Clock().now())
    assert asked == []


@pytest.mark.parametrize("scheme", SCHEMES)
def test_a_sender_of_any_scheme_may_be_taken_unsigned_when_that_is_said(home: Path, scheme: str) -> None:
    source = load(home, {"scheme": scheme, "unsigned": True}).find("demo", source="hook")

    assert (source.is_unsigned, source.secrets) == (True, ())


def test_a_message_about_a_secret_does_not_show_it(home: Path) -> None:
    with pytest.raises(ConfigError) as error:
        load(home, {**GITHUB, "secrets": ["hunter2hunter2hunter2"]})

    assert "hunter2" not in str(error.value)


@pytest.mark.parametrize("name", ["Git Hub", "{x}", "a:b", "../x", "", "x" * 64, "ünïcode"])
def test_names_that_would_break_keys_are_refused(home: Path, name: str) -> None:
    with pytest.raises(ConfigError, match="does not match"):
        load(home, GITHUB, name=name)
    with pytest.raises(ConfigError, match="does not match"):
        load(home, GITHUB, tenant=name)


def test_an_operator_is_told_which_source_was_meant(home: Path) -> None:
    sources = load(home, GITHUB)

    with pytest.raises(ConfigError, match=r"tenants\.demo\.sources\.hok does not exist; did you mean hook\?"):
        sources.named("demo", source="hok")
    with pytest.raises(ConfigError, match=r"tenants\.demi does not exist; did you mean demo\?"):
        sources.named("demi", source="hook")
