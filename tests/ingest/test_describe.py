"""What a request says about its event."""

from __future__ import annotations

from dataclasses import replace
from urllib.parse import urlencode

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ingest.describe import Description, describe
from ingest.headers import Headers
from ingest.request import Request
from ingest.scheme import Header, Scheme
from ingest.schemes import GENERIC, GITHUB
from schemas.errors import MalformedRequest, Refused

PLAIN = replace(GENERIC, signature=Header("x-signature"), namespace="billing")


def headers(**values: str) -> Headers:
    named = {"content_type": "application/json", "x_github_event": "push", "x_github_delivery": "d-1", **values}
    return Headers([(name.replace("_", "-").encode(), value.encode("latin-1")) for name, value in named.items() if value])


def described_as(scheme: Scheme, *, headers: Headers, body: bytes) -> Description:
    return describe(scheme, request=Request(headers, body))


def test_a_push_is_described_by_its_headers_and_its_repository() -> None:
    described = described_as(GITHUB, headers=headers(), body=b'{"repository": {"full_name": "octo/hello"}}')

    assert (described.event_type, described.repository, described.delivery_id) == ("github.push", "octo/hello", "d-1")
    assert described.key == "octo/hello"
    assert described.content_type == "application/json"


def test_the_action_in_the_body_refines_the_type() -> None:
    described = described_as(GITHUB, headers=headers(x_github_event="pull_request"), body=b'{"action": "opened"}')

    assert described.event_type == "github.pull_request.opened"


@pytest.mark.parametrize("action", [b"7", b"null", b'"a b"', b'"a.b"', b'""', b'{"x": 1}', b'"' + b"x" * 101 + b'"'])
def test_an_action_that_is_no_name_is_left_out(action: bytes) -> None:
    assert described_as(GITHUB, headers=headers(), body=b'{"action": %b}' % action).event_type == "github.push"


@pytest.mark.parametrize("repository", [b"null", b"[]", b'"octo/hello"', b'{"full_name": null}', b'{"full_name": true}', b"{}"])
def test_a_subject_of_another_kind_leaves_the_field_empty(repository: bytes) -> None:
    assert described_as(GITHUB, headers=headers(), body=b'{"repository": %b}' % repository).repository == ""


@pytest.mark.parametrize("body", [b"", b"garbage", b"[]", b'"text"', b"{", b'{"a": NaN}', b"\xff\xfe{}", b"[" * 100_000, b"payload=%7B%7D"])
def test_github_bodies_must_be_json_objects(body: bytes) -> None:
    with pytest.raises(MalformedRequest):
        described_as(GITHUB, headers=headers(), body=body)


@pytest.mark.parametrize(
    "value", [rb'"\ud800"', rb'"\udfff\ud83d"', b"1e999", b"-1e999", b"9" * 400, b"9" * 5000, b'{"\\ud800": [1e400, "\\ud800"]}']
)
def test_what_the_grammar_allows_is_accepted_though_no_library_holds_it(value: bytes) -> None:
    """A sender that is told 400 does not send again, and the event would be gone."""
    described = described_as(
        GITHUB, headers=headers(), body=b'{"m": %b, "action": "opened", "repository": {"full_name": "octo/hello"}}' % value
    )

    assert (described.event_type, described.repository) == ("github.push.opened", "octo/hello")


def test_half_a_character_leaves_the_field_empty() -> None:
    described = described_as(GITHUB, headers=headers(), body=rb'{"action": "\ud800", "repository": {"full_name": "octo/\ud800"}}')

    assert (described.event_type, described.repository, described.key) == ("github.push", "", "")


@pytest.mark.parametrize("text", [b"Fran\xe7ois", b"\xc3", b"\xed\xa0\x80", b"\xff\\n", b"\xc0\xa2"])
def test_texts_in_another_encoding_are_accepted_and_leave_their_field_empty(text: bytes) -> None:
    """Nobody can tell their letters; the body is kept as it came."""
    beside = described_as(GITHUB, headers=headers(), body=b'{"m": "%b", "%b": 1, "repository": {"full_name": "octo/hello"}}' % (text, text))
    in_fields = described_as(GITHUB, headers=headers(), body=b'{"action": "%b", "repository": {"full_name": "octo/%b"}}' % (text, text))

    assert (beside.event_type, beside.repository) == ("github.push", "octo/hello")
    assert (in_fields.event_type, in_fields.repository, in_fields.key) == ("github.push", "", "")


@pytest.mark.parametrize(
    "body",
    [rb'{"a": "\ud800", "b": NaN}', b'{"a": 1e999, "b": -Infinity}', b'\xef\xbb\xbf{"a": 1e999}', b'{"a": 1e999, "b": \xff}']
    + [b'{"a": 1e999}'.decode().encode(encoding) for encoding in ("utf-16", "utf-32")]
    + [b'{"a":' * 20_000 + b"1e999" + b"}" * 20_000, b'{"a": 1e999, "b": "\n"}', b'{"a": 1e999,}', b'{"a": 01e999}'],
)
def test_what_the_grammar_does_not_allow_stays_refused(body: bytes) -> None:
    with pytest.raises(MalformedRequest):
        described_as(GITHUB, headers=headers(), body=body)


@pytest.mark.parametrize(
    "missing", [{"x_github_event": ""}, {"x_github_delivery": ""}, {"x_github_event": "a b"}, {"x_github_delivery": "d\xe9"}]
)
def test_github_requests_must_name_their_type_and_delivery(missing: dict[str, str]) -> None:
    with pytest.raises(MalformedRequest):
        described_as(GITHUB, headers=headers(**missing), body=b"{}")


def test_a_form_carries_its_json_in_one_field() -> None:
    body = urlencode({"payload": '{"action": "opened", "repository": {"full_name": "octo/häuser"}}'}).encode()

    described = described_as(GITHUB, headers=headers(content_type="application/x-www-form-urlencoded; charset=utf-8"), body=body)

    assert (described.event_type, described.repository) == ("github.push.opened", "octo/häuser")


@pytest.mark.parametrize("body", [b"", b"payload", b"other=%7B%7D", b"payload=%7B%7D&payload=%7B%7D", b"payload=x", b"\xff=1", b"&" * 100])
def test_a_form_without_one_json_field_is_malformed(body: bytes) -> None:
    with pytest.raises(MalformedRequest):
        described_as(GITHUB, headers=headers(content_type="application/x-www-form-urlencoded"), body=body)


def test_a_generic_source_may_send_anything() -> None:
    described = described_as(PLAIN, headers=headers(content_type="image/png"), body=b"\x89PNG\r\n")

    assert (described.event_type, described.delivery_id, described.repository) == ("billing.received", "", "")


def test_a_generic_source_may_name_where_its_subject_stands() -> None:
    scheme = replace(PLAIN, repository="customer.id", key="account")

    described = described_as(scheme, headers=headers(), body=b'{"customer": {"id": 17}, "account": "a-1"}')

    assert (described.repository, described.key) == ("17", "a-1")


def test_a_generic_source_that_demands_json_refuses_the_rest() -> None:
    with pytest.raises(MalformedRequest):
        described_as(replace(PLAIN, demands_json=True), headers=headers(), body=b"<xml/>")


@pytest.mark.parametrize("body", [b"forged=true", b"12345", b""])
def test_calling_a_body_a_form_does_not_make_json_of_it(body: bytes) -> None:
    with pytest.raises(MalformedRequest):
        described_as(replace(PLAIN, demands_json=True), headers=headers(content_type="application/x-www-form-urlencoded"), body=body)


def test_json_that_is_called_a_form_is_read_as_json_where_json_is_demanded() -> None:
    scheme = replace(PLAIN, demands_json=True, repository="customer")

    described = described_as(scheme, headers=headers(content_type="application/x-www-form-urlencoded"), body=b'{"customer": "c-1"}')

    assert described.repository == "c-1"


def test_only_headers_on_the_allow_list_are_kept() -> None:
    given_headers = headers(
        authorization="Bearer x",
        cookie="c",
        x_forwarded_for="1.2.3.4",
        x_hub_signature_256="s",
        user_agent="GitHub-Hookshot/1",
        x_github_hook_id="7",
    )

    kept = described_as(GITHUB, headers=given_headers, body=b"{}").headers

    assert set(kept) == {"content-type", "user-agent", "x-github-event", "x-github-delivery", "x-github-hook-id"}


schemes = st.sampled_from(
    [GITHUB, PLAIN, replace(PLAIN, repository="a.b", key="c", event_type=(Header("x-github-event"),), demands_json=True)]
)
raw_headers = st.lists(
    st.tuples(
        st.sampled_from([b"content-type", b"x-github-event", b"x-github-delivery", b"user-agent", b"cookie"]),
        st.one_of(st.binary(max_size=40), st.sampled_from([b"push", b"application/json", b"application/x-www-form-urlencoded"])),
    ),
    max_size=8,
)
bodies = st.one_of(
    st.binary(max_size=200),
    st.sampled_from(
        [
            b"{}",
            b"[]",
            b'{"repository": {"full_name": "a/b"}, "action": "x"}',
            b"payload=%7B%7D",
            b'{"a": {"b": 1e400}}',
            b'"\\ud800"',
            b'{"repository": {"full_name": "\\ud800"}, "a": {"b": "\\udc00"}, "c": 1e999}',
        ]
    ),
    st.just(b'{"repository": {"full_name": "\\ud800"}, "a": {"b": "\\udc00"}, "c": 1e999}'),
    st.binary(max_size=60).map(lambda value: b"payload=" + value),
)


@given(scheme=schemes, raw=raw_headers, body=bodies)
def test_describing_raises_nothing_but_refused(scheme: Scheme, raw: list[tuple[bytes, bytes]], body: bytes) -> None:
    try:
        described = described_as(scheme, headers=Headers(raw), body=body)
    except Refused:
        return

    # What is described must be storable: everything is text that can be written as UTF-8.
    for text in (described.event_type, described.repository, described.delivery_id, described.key, *described.headers.values()):
        text.encode()
