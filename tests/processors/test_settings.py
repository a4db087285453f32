"""Settings of a forwarder that could not work, or should not, are refused in one sentence."""

from __future__ import annotations

import re
from typing import Any

import pytest

from infra.settings import validate
from processors.settings import ForwardSettings, GroupSettings
from schemas.errors import ConfigError

PRIVATE = "url leads to {} ({}), where nothing is forwarded to; allow_private decides about private ones"


def refusal(**forward: Any) -> str:
    with pytest.raises(ConfigError) as refused:
        validate({"forward": {"url": "https://crm.example/in", **forward}}, GroupSettings, at="groups.crm")
    return str(refused.value)


@pytest.mark.parametrize(
    ("url", "reason"),
    [
        ("", "it is empty or has characters"),
        ("https://crm.example/a b", "it is empty or has characters"),
        ("https://crm.example/in\n", "it is empty or has characters"),
        ("https://caf\u00e9.example/", "it is empty or has characters"),
        ("crm.example/in", "it is no URL that begins with http:// or https://"),
        ("ftp://crm.example/in", "it is no URL that begins with http:// or https://"),
        ("https:///in", "it is no URL that begins with http:// or https://"),
        ("https://crm.example:0/in", "it is no URL that begins with http:// or https://"),
        ("https://crm.example:99999/in", "it is no URL: "),
        ("https://[::1/in", "it is no URL: "),
        ("https://me:secret-word@crm.example/in", "it has credentials in it"),
        ("https://@crm.example/in", "it has credentials in it"),
        ("https://crm.example/in#part", "what follows `#` would not be sent"),
    ],
)
def test_a_url_that_is_no_endpoint_is_refused_and_not_shown(url: str, reason: str) -> None:
    sentence = refusal(url=url)

    assert sentence.startswith(f"groups.crm.forward.url is wrong: {reason}")
    assert "secret-word" not in sentence


@pytest.mark.parametrize(
    ("host", "address", "what"),
    [
        ("127.0.0.1", "127.0.0.1", "loopback"),
        ("[::1]", "::1", "loopback"),
        ("0.0.0.0", "0.0.0.0", "unspecified"),
        ("2130706433", "127.0.0.1", "loopback"),
        ("[::ffff:127.0.0.1]", "::ffff:7f00:1", "an IPv4 address wrapped in IPv6"),
        ("169.254.169.254", "169.254.169.254", "link-local, where clouds keep credentials"),
    ],
)
def test_an_address_that_may_not_be_reached_is_refused_at_start(host: str, address: str, what: str) -> None:
    assert refusal(url=f"http://{host}:8080/in") == "groups.crm.forward is wrong: " + PRIVATE.format(address, what)


def test_a_private_address_may_be_allowed() -> None:
    assert ForwardSettings(url="http://10.0.0.7/in", allow_private=True).url == "http://10.0.0.7/in"


@pytest.mark.parametrize("name", ["Connection", "transfer-encoding", "Host", "Content-Length", "te", "Upgrade", "proxy-authorization"])
def test_headers_of_the_connection_are_refused(name: str) -> None:
    assert refusal(headers={name: "x"}) == f"groups.crm.forward.headers is wrong: {name} belongs to the connection, not to the event"


@pytest.mark.parametrize("name", ["webhook-id", "Webhook-Signature", "Idempotency-Key", "x-hooklake-tenant", "traceparent", "content-type"])
def test_headers_that_hooklake_writes_are_refused(name: str) -> None:
    assert refusal(headers={name: "x"}) == f"groups.crm.forward.headers is wrong: {name} is written by hooklake itself"


@pytest.mark.parametrize("name", ["", "a b", "a:b", "a\r\nb", "caf\u00e9"])
def test_what_is_no_header_name_is_refused(name: str) -> None:
    assert refusal(headers={name: "x"}) == f"groups.crm.forward.headers is wrong: {name!r} is no header name"


def test_a_header_that_is_named_twice_is_refused() -> None:
    assert refusal(headers={"X-A": "1", "x-a": "2"}) == "groups.crm.forward.headers is wrong: it names one header twice"


@pytest.mark.parametrize("pattern", ["git*", "*.push", "a.*.b", ""])
def test_a_pattern_that_no_registry_knows_is_refused(pattern: str) -> None:
    assert re.match(r"groups.crm.forward.types.0 is wrong: ", refusal(types=[pattern]))


def test_no_pattern_at_all_is_refused() -> None:
    assert refusal(types=[]).startswith("groups.crm.forward.types is wrong: ")


def test_an_unknown_setting_is_refused_with_the_nearest_known_one() -> None:
    assert refusal(metod="PUT") == "groups.crm.forward.metod is not a setting; did you mean method?; it would have no effect"


def test_a_missing_url_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"^groups.crm.forward.url is missing; it has no default$"):
        validate({"forward": {"types": ["*"]}}, GroupSettings, at="groups.crm")
