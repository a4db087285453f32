"""What a receiver makes of a request, held against the model of events that it does not ask each time."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest

from infra.clock import Clock, EventIds
from infra.settings import LogSettings, load_settings
from ingest.describe import Description
from ingest.events import auth_context, event_of
from ingest.signatures import Proof
from ingest.sources import Sources
from ingest.splitting import Piece
from schemas.event import Part, Priority, StreamEvent
from tests.ingest.receivers import write_home

AT = datetime(2026, 1, 2, 3, 4, 5, 678_000, tzinfo=UTC)
PLAIN = Description("github.push", "octo/hello", "d-1", "octo/hello", "application/json", {"x-github-event": "push"})
ODD = Description("billing.received", "\u00fc\u4e2d", "", "", "text/plain; a=\xff", {"user-agent": "\xff\x80"})
PIECES = {
    "plain": Piece(PLAIN, b"{}"),
    "odd": Piece(ODD, b"\x00\xff", flags=("schema_mismatch",)),
    "part": Piece(PLAIN, b"1", part=Part(number=1, of=2, body_sha256="0" * 64, before="[")),
}


@pytest.mark.parametrize("name", PIECES)
def test_an_event_is_what_its_model_would_have_made(home: Path, log: LogSettings, name: str) -> None:
    source = Sources.from_settings(load_settings(write_home(home, log=log))).by_route["demo", "github"]
    proof = auth_context(source, proof=Proof("abcd", {"x-hub-signature-256": "sha256=\xff"}, ""), verified_at=AT, remote_address="::1")

    known = {"event_id": EventIds(Clock()).mint(), "received_at": AT, "traceparent": "00-a-b-00"}
    event = event_of(source, piece=PIECES[name], priority=Priority.LOW, proof=proof, **known)  # type: ignore[arg-type]

    validated = StreamEvent.model_validate(event.model_dump())
    assert validated == event
    assert validated.model_dump_json() == event.model_dump_json()
    assert list(event.__dict__) == list(StreamEvent.model_fields)
