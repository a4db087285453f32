"""Controls of what is cut, checked and answered: each runs the very test of a protection without it, and sees it fail."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import jsonschema_rs
import orjson
import pytest

from infra.clock import Clock
from infra.settings import LogSettings, TelemetrySettings, load_settings
from infra.telemetry import Telemetry
from ingest import handshakes, receive
from ingest.handshakes import answer_to_question
from ingest.headers import Headers
from ingest.request import Request
from ingest.signatures import verify
from ingest.slices import Slice
from ingest.sources import Sources
from schemas.errors import MalformedRequest
from tests.ingest import test_body_schemas as checking
from tests.ingest import test_slices as cutting
from tests.ingest import test_subscriptions as subscribing
from tests.ingest.test_handshakes import CRC, made_home

FORGED = '{"forged":true}'


@pytest.fixture
def telemetry(home: Path) -> Iterator[Telemetry]:
    started = Telemetry.start("ingest", TelemetrySettings(), home=home)
    yield started
    started.shutdown()


def ask_for_a_signature(home: Path) -> bool:
    """Whether a stranger who asks for the signature of a body can post that body as the sender's."""
    source = Sources.from_settings(load_settings(made_home(home, log=LogSettings(), sources={"x": CRC}))).find("demo", source="x")
    query = f"crc_token={FORGED}"
    _, _, answer = answer_to_question(source.answering, method="GET", query=query, headers=Headers([]), keys=source.secrets)
    signature = orjson.loads(answer)["response_token"].encode()
    request = Request(Headers([(b"x-twitter-webhooks-signature", signature)]), FORGED.encode())
    return bool(verify(source.scheme, request=request, secrets=source.secrets, now=Clock().now()).key_id)


def test_nobody_can_have_a_request_signed(tmp_path: Path) -> None:
    with pytest.raises(MalformedRequest, match="the token to sign"):
        ask_for_a_signature(tmp_path)


def test_a_receiver_that_signs_any_token_signs_requests_for_strangers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(handshakes, "is_token", lambda _: True)

    assert ask_for_a_signature(tmp_path)


async def test_without_its_topics_a_source_believes_every_customer_of_amazon(
    home: Path, log: LogSettings, telemetry: Telemetry, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(receive, "refuse_other_topics", lambda _answering, *, content: content)

    with pytest.raises(AssertionError, match="202, 202, 401"):
        await subscribing.test_a_signed_confirmation_of_a_named_topic_is_stored_and_confirmed(home, log, telemetry)


def test_a_scanner_that_writes_elements_anew_changes_what_was_signed(monkeypatch: pytest.MonkeyPatch) -> None:
    def rewritten(body: bytes) -> list[Slice]:
        return [Slice(",", orjson.dumps(element)) for element in orjson.loads(body.replace(b"9" * 400, b"9"))]

    monkeypatch.setattr(cutting, "slices_of", rewritten)

    with pytest.raises(AssertionError, match=r"1\.1"):
        cutting.test_numbers_strings_and_names_stay_as_they_were_written()


def test_a_schema_may_read_files_where_references_are_followed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    really = jsonschema_rs.validator_for
    monkeypatch.setattr(jsonschema_rs, "validator_for", lambda schema, *, offline, **options: really(schema, **options))
    (tmp_path / "other.json").write_bytes(b'{"type": "object"}')
    schema = b'{"$ref": "file://%b"}' % str(tmp_path / "other.json").encode()

    with pytest.raises(pytest.fail.Exception, match="DID NOT RAISE"):
        checking.test_a_schema_that_cannot_be_used_stops_the_start(tmp_path, schema, "Retrieval is disabled")


def test_a_schema_may_look_around_where_patterns_backtrack(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jsonschema_rs, "RegexOptions", jsonschema_rs.FancyRegexOptions)

    with pytest.raises(pytest.fail.Exception, match="DID NOT RAISE"):
        checking.test_a_schema_that_cannot_be_used_stops_the_start(tmp_path, b'{"pattern": "(?=a)a"}', "regex")
