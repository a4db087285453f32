"""Owns letting a refused request in after all: it is verified again, with today's secrets and as of the time when it came.

Its event gets the id that was given to it when it was refused. So the order is: write down that the release is begun, append, then
write down that it was released; whoever dies in between is repeated, finds the event on the log, and appends nothing. From the first of
these on nobody can discard it, and what was discarded before is not appended.
"""

from __future__ import annotations

import asyncio
import uuid
from collections import Counter
from collections.abc import Sequence
from datetime import datetime

from infra.clock import Clock
from infra.streams.decided import OPEN
from infra.streams.quarantine import BEGUN, RELEASED, QuarantinedRequests
from infra.streams.stream import EventStream
from ingest.events import auth_context, event_of
from ingest.headers import Headers
from ingest.inflate import plain_body
from ingest.receive import asked
from ingest.request import Request
from ingest.signatures import verify
from ingest.sources import Source, Sources
from ingest.splitting import pieces_of
from schemas.errors import MalformedRequest, Refused
from schemas.event import StreamEvent
from schemas.quarantined import QuarantinedRequest
from schemas.receipt import Receipt

REFUSED, WOULD = "refused", "would be released"
RANDOM_BITS = 2**62 - 1


class Releaser:
    """Releases one request after the other; `reasons` counts why some were refused again."""

    def __init__(
        self, requests: QuarantinedRequests, *, sources: Sources, stream: EventStream, runner: asyncio.Runner, clock: Clock
    ) -> None:
        self._requests = requests
        self._sources = sources
        self._stream = stream
        self._runner = runner
        self._clock = clock
        self.reasons: Counter[str] = Counter()

    def release(self, name: str, *, by: str) -> str:
        """`released`, `refused`, or why nothing was done: `already`, `discarded` or `gone`. Raises StreamUnavailable."""
        answer, events = self._examine(name)
        if not events:
            return answer
        if (begun := self._requests.begin_release(name, by=by)) != BEGUN:
            return begun
        receipts = self._runner.run(self._append(events))
        return self._requests.close_as(RELEASED, name, by=by, event_id=receipts[0].event_id)

    def look_at(self, name: str) -> str:
        """What `release` would do; does nothing."""
        return self._examine(name)[0]

    def _examine(self, name: str) -> tuple[str, list[StreamEvent]]:
        found = self._requests.find(name)
        if not found:
            return "gone", []
        request = found[0]
        if request.state != OPEN:
            return ("already" if request.state == RELEASED else request.state), []
        try:
            source = self._sources.find(request.tenant_id, source=request.source)
            if source.certificates is not None:
                sent = sent_of(request, source=source)
                self._runner.run(source.certificates.obtain(sent, now=request.received_at))
            return WOULD, events_of(request, source=source, now=self._clock.now())
        except Refused as error:
            self.reasons[f"{request.tenant_id}/{request.source}: {error}{_about_secrets(request)}"] += 1
            return REFUSED, []

    async def _append(self, events: Sequence[StreamEvent]) -> list[Receipt]:
        # The sender may have sent it again long ago: the archive looks in its table too.
        if len(events) > 1:
            return await self._stream.append_parts(events, recheck=True)
        return [await self._stream.append(events[0], recheck=True)]


def events_of(request: QuarantinedRequest, *, source: Source, now: datetime) -> list[StreamEvent]:
    """The events that the receiver would have made of it, if today's settings had held then; raises Refused. Pure."""
    sent = sent_of(request, source=source)
    proof = verify(source.scheme, request=sent, secrets=source.secrets, now=request.received_at)
    believed = auth_context(source, proof=proof, verified_at=now, remote_address=request.remote_address)
    plain = _plain(sent, source=source)
    if source.answering.handshake != "none" and asked(source, plain=plain, proof=proof) is not None:
        raise MalformedRequest("it is a handshake and no event; only a receiver can answer it, so let the sender ask again")
    pieces = pieces_of(source, request=sent, plain=plain)
    ids = [nth_id(request.event_id, number=number) for number in range(len(pieces))]
    return [
        event_of(source, event_id=event_id, piece=piece, priority=source.priority, received_at=request.received_at, proof=believed)
        for event_id, piece in zip(ids, pieces, strict=True)
    ]


def sent_of(request: QuarantinedRequest, *, source: Source) -> Request:
    return Request(headers_of(request), request.body, query=request.query, public_url=source.public_url)


def headers_of(request: QuarantinedRequest) -> Headers:
    """As they came, but for those that were not kept; what was repeated is repeated, since it must not be believed now either."""
    raw = [(name.encode("latin-1"), value.encode("latin-1")) for name, value in request.headers.items()]
    return Headers([*raw, *((name.encode("latin-1"), b"") for name in request.repeated_headers)])


def nth_id(first: str, *, number: int) -> str:
    """Ids that follow from the first one, so that a repeated release makes the same events. Pure."""
    value = uuid.UUID(first).int
    return str(uuid.UUID(int=value & ~RANDOM_BITS | ((value & RANDOM_BITS) + number) & RANDOM_BITS))


def _plain(request: Request, *, source: Source) -> Request:
    if not source.encodings:
        return request
    plain = plain_body(request.body, encoding=request.headers.one("content-encoding"), max_bytes=source.max_body_bytes)
    # The same request where nothing was compressed: only that one is split.
    return request if plain is request.body else Request(request.headers, plain)


def _about_secrets(request: QuarantinedRequest) -> str:
    if not request.removed_headers:
        return ""
    return f" (not kept, since they carry secrets: {', '.join(request.removed_headers)})"
