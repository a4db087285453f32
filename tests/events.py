"""Owns the events that tests use."""

from __future__ import annotations

import hashlib
from typing import Any

from infra.clock import Clock, EventIds
from infra.settings import LogSettings
from infra.streams.keys import Keys
from schemas.event import AuthContext, StreamEvent

_clock = Clock()
_ids = EventIds(_clock)


def an_event(**changes: Any) -> StreamEvent:
    """A GitHub push, with whatever `changes` says; the body's digest always fits the body."""
    payload: bytes = changes.pop("payload", b'{"ref": "refs/heads/main"}')
    event_id = changes.pop("id", None) or _ids.mint()
    values: dict[str, Any] = {
        "id": event_id,
        "tenant_id": "demo",
        "source": "github",
        "event_type": "github.push",
        "repository": "octo/hello",
        "delivery_id": f"delivery-{event_id}",
        "timestamp": _clock.now(),
        "payload": payload,
        "body_sha256": hashlib.sha256(payload).hexdigest(),
        "content_type": "application/json",
        "headers": {"x-github-event": "push"},
        "auth_context": AuthContext(scheme="github", key_id="k1", verified_at=_clock.now()),
        **changes,
    }
    return StreamEvent(**values)


def events_of_all_shards(log: LogSettings, *, count: int) -> list[StreamEvent]:
    """So many events, at least one for each shard: which shard an event goes to is chance."""
    keys = Keys(log.prefix, log.shards)
    found: dict[int, StreamEvent] = {}
    while len(found) < log.shards:
        event = an_event()
        found.setdefault(keys.shard_of(event), event)
    return [*found.values(), *(an_event() for _ in range(count - len(found)))]
