"""Controls: without one protection of the engine the very test of that protection fails. Each breaks one function, in this process."""

from __future__ import annotations

import base64
from collections.abc import Callable
from typing import Any

import pytest

import ingest.given
import ingest.keys
import ingest.proxies
import ingest.public_keys
import ingest.signatures
import ingest.signed
from ingest.given import Given
from ingest.headers import Headers
from ingest.keys import HmacKey
from ingest.request import Request
from ingest.scheme import Items, Scheme
from ingest.timestamps import refuse_stale
from tests.ingest import test_proxies, test_signatures, test_vectors
from tests.ingest.test_vectors import FIRST
from tests.ingest.vectors import Vector

failed = pytest.raises(pytest.fail.Exception, match="DID NOT RAISE")


def of(scheme: str) -> Vector:
    return next(vector for vector in FIRST if vector.scheme.name == scheme)


def begins(self: HmacKey, signatures: list[bytes], contents: list[bytes]) -> bool:
    return any(self.sign(content).encode().startswith(signature) for content in contents for signature in signatures)


def test_without_a_look_at_the_time_old_requests_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ingest.signatures, "refuse_stale", lambda text, *, scheme, now: None)

    with failed:
        test_vectors.test_a_time_outside_the_tolerance_is_stale_before_and_after(of("slack"), 1)


def test_without_a_look_into_the_future_requests_can_be_made_to_keep(monkeypatch: pytest.MonkeyPatch) -> None:

    def of_the_past_only(text: str, *, scheme: Scheme, now: Any) -> None:
        if int(text) < now.timestamp():
            refuse_stale(text, scheme=scheme, now=now)

    monkeypatch.setattr(ingest.signatures, "refuse_stale", of_the_past_only)

    test_vectors.test_a_time_outside_the_tolerance_is_stale_before_and_after(of("slack"), 1)
    with failed:
        test_vectors.test_a_time_outside_the_tolerance_is_stale_before_and_after(of("slack"), -1)


def test_without_a_bound_a_header_may_hold_any_number_of_signatures(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ingest.given, "MOST_SIGNATURES", 1000)

    with failed:
        test_vectors.test_no_more_than_five_signatures_are_looked_at(of("pagerduty"))


def test_with_a_lenient_decoder_one_signature_has_many_spellings(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ingest.public_keys, "canonical", lambda text, *, encoding: base64.b64decode(text))

    with failed:
        test_signatures.test_the_signature_of_a_public_key_is_accepted_in_one_spelling_only()


def test_with_a_comparison_of_beginnings_a_shortened_signature_passes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(HmacKey, "made", begins)

    with failed:
        test_vectors.test_any_other_signature_is_a_bad_one(of("github"), lambda text: text[:-2])


def test_with_any_name_in_front_a_signature_of_another_algorithm_passes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ingest.given, "_bare", lambda value, *, scheme: value.rpartition("=")[2].encode())

    with failed:
        test_vectors.test_every_signature_under_the_name_of_another_algorithm_is_a_bad_one(of("github"), "sha1")
    with failed:
        test_vectors.test_a_signature_without_its_name_is_a_bad_one(of("github"))


def test_with_any_name_in_a_list_a_signature_of_another_version_passes(monkeypatch: pytest.MonkeyPatch) -> None:
    def listed(value: str, *, items: Items, scheme: Scheme) -> Given:
        pairs = [item.partition(items.pair) for item in value.split(items.separator)]
        return Given([text.encode() for _, _, text in pairs], timestamp=ingest.given._listed_time(pairs, scheme=scheme))

    monkeypatch.setattr(ingest.given, "_listed", listed)

    for scheme in ("stripe", "paddle"):
        with failed:
            test_vectors.test_every_signature_under_the_name_of_another_algorithm_is_a_bad_one(of(scheme), "v9")


def test_with_a_comparison_of_beginnings_an_empty_signature_passes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(HmacKey, "made", begins)

    for scheme in ("github", "stripe", "paddle"):
        with failed:
            test_vectors.test_nothing_behind_the_right_name_is_a_bad_signature(of(scheme))


def test_with_the_first_of_two_headers_a_repeated_one_passes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Headers, "one", lambda self, name: self.values.get(name, ""))

    with failed:
        test_vectors.test_a_repeated_header_is_malformed_even_when_both_are_right(of("github"))


def test_with_a_dot_in_its_id_a_request_could_be_divided_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ingest.given, "signed_id", lambda request, *, scheme: request.headers.one("webhook-id").partition(".")[0])

    with failed:
        test_signatures.test_an_id_with_a_dot_could_be_divided_in_another_way_and_is_refused()


def test_where_a_body_that_is_no_form_counts_as_an_empty_one_any_body_passes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ingest.signed, "_form", lambda request: b"")

    with failed:
        test_signatures.TestTwilio().test_a_body_that_is_no_form_is_refused_where_nothing_covers_it()


def test_where_the_request_names_its_own_address_the_settings_protect_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    said = property(lambda self: f"https://{self.headers.one('x-forwarded-host') or 'mycompany.com'}/myapp.php?{self.query}")
    monkeypatch.setattr(Request, "url", said)

    with failed:
        test_signatures.TestTwilio().test_the_address_is_the_one_of_the_settings_and_not_of_the_request(of("twilio"))


def test_where_everybody_is_a_proxy_of_ours_a_stranger_names_its_own_address(monkeypatch: pytest.MonkeyPatch) -> None:
    trusts: Callable[..., bool] = lambda self, address: True  # noqa: E731
    monkeypatch.setattr(ingest.proxies.Proxies, "_contain", trusts)

    with pytest.raises(AssertionError):
        test_proxies.test_only_what_our_own_proxies_add_is_believed("198.51.100.7", [b"203.0.113.9"], "198.51.100.7")
