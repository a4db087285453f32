"""Owns refused requests on the log: keeping them aside (asyncio), and reading and deciding about them for operators (blocking).

Best effort by nature: a stranger decides how many there are. They are capped per source and shard; what is above is counted.
"""

from __future__ import annotations

import orjson

from infra.streams.decided import DecidedEntries, Decision, Stored, place_of
from infra.streams.entries import Fields
from schemas.event import from_epoch_ms, to_epoch_ms
from schemas.quarantined import QuarantinedRequest

RELEASED, DISCARDED = "released", "discarded"
BEGUN, RELEASING = "begun", "releasing"
TEXTS = ("event_id", "tenant_id", "source", "code", "reason", "remote_address", "query")
LISTS = ("removed_headers", "repeated_headers")


def size_of(request: QuarantinedRequest) -> int:
    return len(request.body) + sum(len(name) + len(value) for name, value in request.headers.items())


def encode_request(request: QuarantinedRequest) -> list[str | bytes | int]:
    """Field, value, field, value, ... as XADD takes them; `id` is the event's, as in every stream."""
    values: dict[str, str | bytes | int] = {name: getattr(request, name) for name in TEXTS}
    values["id"] = values.pop("event_id")
    values |= {"received_at": to_epoch_ms(request.received_at), "headers": orjson.dumps(request.headers), "body": request.body}
    values |= {name: orjson.dumps(getattr(request, name)) for name in LISTS}
    return [part for pair in values.items() for part in pair]


def read_request(fields: Fields, *, shard: int, entry_id: str, state: str) -> QuarantinedRequest:
    """Pure: the request that an entry of the stream `quarantine` describes."""
    texts = {name: fields.get(b"id" if name == "event_id" else name.encode(), b"").decode(errors="replace") for name in TEXTS}
    return QuarantinedRequest(
        id=f"{shard}-{entry_id}",
        received_at=from_epoch_ms(int(fields.get(b"received_at", b"0"))),
        headers=orjson.loads(fields.get(b"headers", b"{}")),
        removed_headers=_names(fields, b"removed_headers"),
        repeated_headers=_names(fields, b"repeated_headers"),
        body=fields.get(b"body", b""),
        state=state,
        **texts,
    )


def _names(fields: Fields, name: bytes) -> tuple[str, ...]:
    return tuple(orjson.loads(fields.get(name, b"[]")))


class QuarantinedRequests(DecidedEntries[QuarantinedRequest]):
    """The refused requests of all shards; raises StreamUnavailable."""

    record = b"request"

    def _stream(self, shard: int) -> str:
        return self._keys.quarantine(shard)

    def _state(self, shard: int) -> str:
        return self._keys.quarantine_state(shard)

    def _read(self, stored: Stored) -> QuarantinedRequest:
        return read_request(stored.fields, shard=stored.shard, entry_id=stored.entry_id, state=stored.state)

    def _with(self, request: QuarantinedRequest, decision: Decision) -> QuarantinedRequest:
        return request.model_copy(update={"decided_at": decision.at, "decided_by": decision.by, "because": decision.because})

    def begin_release(self, name: str, *, by: str) -> str:
        """`begun`, or why its event must not be appended: `already`, `discarded` or `gone`. Nobody can discard it from then on."""
        shard, entry_id = place_of(name)
        return self._decide("begin_release", shard=shard, args=[entry_id, by])

    def close_as(self, state: str, name: str, *, by: str, because: str = "", event_id: str = "") -> str:
        """`state`, or why nothing was done: `already`, the other state, `releasing` or `gone`.

        To be called when a released event is on the log. `releasing` is what cannot be discarded, as its release was begun.
        """
        shard, entry_id = place_of(name)
        return self._decide("decide_quarantined", shard=shard, args=[entry_id, by, state, because, event_id])
