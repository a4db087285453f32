"""A stored event's signature is verified again years later, with the key that was believed then."""

from __future__ import annotations

import base64
import json
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from infra.settings import FILE_NAME, Settings, SettingsFile, environment_with
from ingest.headers import Headers
from ingest.request import Request
from ingest.signatures import sign, verify
from ingest.sources import Sources
from ingest.verify_again import word_for
from schemas.event import to_epoch_ms

THEN = datetime(2024, 1, 2, 3, 4, 5, tzinfo=UTC)
BODY = b'{"id": "a-1"}'


@pytest.fixture
def sources(home: Path) -> Sources:
    (home / "secret").write_text("a-secret-0123456789abcdef")
    (home / "secret").chmod(0o600)
    described = {name: {"scheme": name, "secrets": ["file:secret"]} for name in ("github", "stripe")}
    (home / FILE_NAME).write_text(json.dumps({"tenants": {"demo": {"sources": described}}}))
    return Sources.from_settings(Settings(home, SettingsFile(tenants={"demo": {"sources": described}})))


def a_row(sources: Sources, *, source: str, **changes: Any) -> dict[str, Any]:
    """What the table has of a request that the receiver believed at that time."""
    found = sources.find("demo", source=source)
    signed = sign(found.scheme, request=Request(Headers([]), BODY), secret=found.secrets[0], now=THEN)
    raw = [(name.lower().encode(), value.encode()) for name, value in signed.headers.items()]
    proof = verify(found.scheme, request=Request(Headers(raw), signed.body), secrets=found.secrets, now=THEN)
    row: dict[str, Any] = {"tenant": "demo", "source": source, "body": base64.b64encode(signed.body).decode(), "scheme": found.scheme.name}
    row |= {"key_id": proof.key_id, "signature_headers": proof.signature_headers, "signed_url": proof.signed_url}
    return {**row, "content_type": "application/json", "received_ms": to_epoch_ms(THEN), **changes}


@pytest.mark.parametrize("source", ["github", "stripe"])
def test_what_was_received_is_valid_though_its_time_is_long_past(sources: Sources, source: str) -> None:
    assert word_for(a_row(sources, source=source), sources=sources) == "valid"


@pytest.mark.parametrize("source", ["github", "stripe"])
def test_another_body_is_invalid(sources: Sources, source: str) -> None:
    assert word_for(a_row(sources, source=source, body=base64.b64encode(BODY + b" ").decode()), sources=sources) == "invalid"


def test_a_time_that_was_not_that_of_the_receipt_is_invalid(sources: Sources) -> None:
    late = to_epoch_ms(THEN + timedelta(hours=1))

    assert word_for(a_row(sources, source="stripe", received_ms=late), sources=sources) == "invalid"


@pytest.mark.parametrize("changes", [{"key_id": "another"}, {"tenant": "nobody"}, {"scheme": "gitlab"}], ids=str)
def test_without_the_key_of_then_nobody_can_tell(sources: Sources, changes: dict[str, str]) -> None:
    assert word_for(a_row(sources, source="github", **changes), sources=sources) == "key_gone"


def test_what_nobody_signed_is_neither_valid_nor_invalid(sources: Sources) -> None:
    assert word_for(a_row(sources, source="github", key_id=""), sources=sources) == "unsigned"


def test_the_process_answers_line_by_line(sources: Sources, home: Path) -> None:
    rows = [a_row(sources, source="github"), a_row(sources, source="github", key_id="another")]
    lines = "".join(json.dumps(row) + "\n" for row in rows)

    ran = subprocess.run(
        [sys.executable, "-m", "ingest.verify_again"],
        input=lines,
        env=environment_with({"HOOKLAKE_HOME": str(home)}),
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )

    assert ran.stdout.split() == ["valid", "key_gone"]
