"""Owns made-up entries: what a receiver might have appended, and nobody has sent. For a Spark that is to be warm. Pure."""

from __future__ import annotations

import hashlib
from datetime import UTC, datetime

import orjson

from infra.streams.entries import LOG_FIELDS, Entry, encode
from schemas.event import AuthContext, StreamEvent, to_epoch_ms

WHEN = datetime(2026, 1, 1, tzinfo=UTC)


def sample_entries(count: int) -> list[Entry]:
    """As the log would hand them out."""
    return [Entry(f"{to_epoch_ms(WHEN) + number}-0", flat=_flat(number)) for number in range(count)]


def _flat(number: int) -> list[bytes]:
    of_the_log = zip(LOG_FIELDS, ("0", number + 1, 0, 0), strict=True)
    parts = [*encode(_event(number)), *(part for pair in of_the_log for part in pair)]
    return [part if isinstance(part, bytes) else str(part).encode() for part in parts]


def _event(number: int) -> StreamEvent:
    body = orjson.dumps(_payload(number))
    return StreamEvent(
        id=f"00000000-0000-7000-8000-{number:012x}",
        tenant_id="nobody",
        source="nowhere",
        event_type="sample.made",
        repository="nobody/nothing",
        delivery_id=f"sample-{number}",
        timestamp=WHEN,
        payload=body,
        body_sha256=hashlib.sha256(body).hexdigest(),
        content_type="application/json",
        headers={"user-agent": "hooklake"},
        auth_context=AuthContext(scheme="github", key_id="0", signature_headers={"x": "y"}, verified_at=WHEN, remote_address="127.0.0.1"),
    )


def _payload(number: int) -> dict[str, object]:
    """Every kind of value, and about the size of what senders send."""
    people = [{"id": person, "login": f"person-{person}", "site_admin": False, "score": person / 7, "team": None} for person in range(16)]
    return {"action": "made", "number": number, "repository": {"full_name": "nobody/nothing", "topics": ["a", "ä"]}, "people": people}
