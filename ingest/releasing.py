"""Owns letting a refused request in after all: it is verified again, with today's secrets and as of the time when it came.

Its event gets the id that was given to it when it was refused. So the order is: write down that the release is begun, append, confirm
the subscription if it asks for one, then write down that it was released; whoever dies in between is repeated, finds the event on the log,
and appends nothing. From the first of these on nobody can discard it, and what was discarded before is not appended.
"""

from __future__ import annotations

import asyncio
import uuid
from collections import Counter
from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple

from infra.clock import Clock
from infra.streams.decided import OPEN
from infra.streams.quarantine import BEGUN, RELEASED, QuarantinedRequests
from infra.streams.stream import EventStream
from ingest.body import refuse_encoding
from ingest.confirming import confirm
from ingest.events import auth_context, event_of
from ingest.headers import Headers
from ingest.inflate import plain_body
from ingest.receive import asked
from ingest.request import Request
from ingest.signatures import verify
from ingest.sources import Source, Sources
from ingest.splitting import pieces_of
from ingest.subscriptions import Call, Subscription, subscription_in
from schemas.errors import MalformedRequest, Refused
from schemas.event import StreamEvent
from schemas.quarantined import QuarantinedRequest
from schemas.receipt import Receipt

REFUSED, WOULD = "refused", "would be released"
RANDOM_BITS = 2**62 - 1


class Examined(NamedTuple):
    """What becomes of a request that is released: an answer, and the events and the subscription that it is, if it verifies."""

    answer: str
    events: Sequence[StreamEvent] = ()
    subscription: Subscription | None = None


class Releaser:
    """Releases one request after the other; `reasons` counts why some were refused again.

    `subscriptions` has the topics of which one was to be confirmed, and why it was not; nothing where it was.
    """

    def __init__(
        self,
        requests: QuarantinedRequests,
        *,
        sources: Sources,
        stream: EventStream,
        runner: asyncio.Runner,
        clock: Clock,
        call: Call = confirm,
    ) -> None:
        self._requests = requests
        self._sources = sources
        self._stream = stream
        self._runner = runner
        self._clock = clock
        self._call = call
        self.subscriptions: dict[str, str] = {}
        self.reasons: Counter[str] = Counter()

    def release(self, name: str, *, by: str) -> str:
        """`released`, `refused`, or why nothing was done: `already`, `discarded` or `gone`. Raises StreamUnavailable."""
        found = self._examine(name)
        if not found.events:
            return found.answer
        if (begun := self._requests.begin_release(name, by=by)) != BEGUN:
            return begun
        receipts = self._runner.run(self._append(found.events))
        if found.subscription is not None:
            self._runner.run(self._confirm(found.subscription))
        return self._requests.close_as(RELEASED, name, by=by, event_id=receipts[0].event_id)

    def look_at(self, name: str) -> str:
        """What `release` would do; does nothing."""
        return self._examine(name).answer

    def _examine(self, name: str) -> Examined:
        found = self._requests.find(name)
        if not found:
            return Examined("gone")
        request = found[0]
        if request.state != OPEN:
            return Examined("already" if request.state == RELEASED else request.state)
        try:
            source = self._sources.find(request.tenant_id, source=request.source)
            if source.certificates is not None:
                sent = sent_of(request, source=source)
                self._runner.run(source.certificates.obtain(sent, now=request.received_at))
            events = events_of(request, source=source, now=self._clock.now())
            return Examined(WOULD, events, subscription_of(request, source=source))
        except Refused as error:
            self.reasons[f"{request.tenant_id}/{request.source}: {error}{_about_secrets(request)}"] += 1
            return Examined(REFUSED)

    async def _confirm(self, subscription: Subscription) -> None:
        reason = await self._call(subscription.host, subscription.target)
        # Amazon asks several times, and an older token may be no longer good: what was confirmed once is confirmed.
        if not reason or self.subscriptions.get(subscription.topic) != "":
            self.subscriptions[subscription.topic] = reason

    async def _append(self, events: Sequence[StreamEvent]) -> list[Receipt]:
        # The sender may have sent it again long ago: the archive looks in its table too.
        if len(events) > 1:
            return await self._stream.append_parts(events, recheck=True)
        return [await self._stream.append(events[0], recheck=True)]


def events_of(request: QuarantinedRequest, *, source: Source, now: datetime) -> list[StreamEvent]:
    """The events that the receiver would have made of it, if today's settings had held then; raises Refused. Pure."""
    sent = sent_of(request, source=source)
    refuse_encoding(sent.headers, allowed=source.encodings)
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


def subscription_of(request: QuarantinedRequest, *, source: Source) -> Subscription | None:
    """What the receiver would have confirmed, had it believed the request; None for nearly every other. Pure."""
    if not source.answering.confirms:
        return None
    return subscription_in(source.answering, content=_plain(sent_of(request, source=source), source=source).json)


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
    return f" (not kept, since they may carry secrets: {', '.join(request.removed_headers)})"
