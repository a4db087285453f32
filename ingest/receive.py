"""Owns the way of one request from its first byte to the log; what it raises decides the sender's answer (`app.py`).

Nothing is answered before the event is kept: a receipt means that it is on the synced log, or in the synced spool. Everything
before it is either a decision of a pure function or the sender's own bytes; only the last step can be unavailable.

This is what happens to every request. One that is here whole and as usual takes the same steps in fewer calls (`shortcut.py`), with
the same outcome, and comes here when it turns out to be anything else.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from typing import NamedTuple

from starlette.types import Receive

from infra.clock import Clock, EventIds
from infra.failpoints import reach
from infra.running.pulse import Pulse
from infra.telemetry import Telemetry
from ingest.answers import Answer
from ingest.body import in_time, read_body, refuse_encoding, refuse_framing
from ingest.events import auth_context, event_of
from ingest.handshakes import answer_to_body, answer_to_question
from ingest.headers import Headers, refuse_large_head
from ingest.inflate import plain_body
from ingest.keeping import Keeper
from ingest.key_use import KeyUse
from ingest.limits import Held, InFlight
from ingest.quarantine import Quarantine
from ingest.rates import Rates
from ingest.request import Request
from ingest.settings import IngestSettings
from ingest.signatures import Proof, verify
from ingest.sources import Source, Sources
from ingest.splitting import pieces_of
from ingest.subscriptions import Confirmations, refuse_other_topics, subscription_in
from schemas.errors import HooklakeError, Refused
from schemas.event import Priority


class Post(NamedTuple):
    """One request to `/hooks/{tenant}/{source}`, its body perhaps still on the way."""

    tenant: str
    source: str
    raw_headers: list[tuple[bytes, bytes]]
    remote_address: str
    receive: Receive
    pulse: Pulse
    query: str = ""
    method: str = "POST"
    has_whole_body: bool = False
    """Every byte of the body is here already."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Receiver:
    """Everything a request needs; one per process."""

    settings: IngestSettings
    sources: Sources
    keeper: Keeper
    telemetry: Telemetry
    clock: Clock
    ids: EventIds
    in_flight: InFlight
    rates: Rates
    confirmations: Confirmations
    quarantine: Quarantine
    key_use: KeyUse = field(default_factory=KeyUse)

    async def receive(self, post: Post) -> Answer:
        """With the receipt of an event, or what a question is answered. Raises Refused for the sender's mistakes and Unavailable for
        ours."""
        with self.in_flight.request(arriving_from=None if post.has_whole_body else post.remote_address) as held:
            refuse_large_head(post.raw_headers, max_headers=self.settings.max_headers, max_bytes=self.settings.max_header_bytes)
            headers = Headers(post.raw_headers)
            source = self.sources.find(post.tenant, source=post.source)
            if source.rate is not None:
                self.rates.refuse_above_hard(source.tenant, settings=source.rate)
            if post.method != "POST":
                return answer_to_question(source.answering, method=post.method, query=post.query, headers=headers, keys=source.secrets)
            # A sender's own traceparent is not believed: it would let a stranger write into our traces.
            with self.telemetry.span("ingest.receive", tenant=source.tenant, source=source.name) as span:
                try:
                    return await self._verified(post, source=source, headers=headers, held=held, traceparent=span.traceparent)
                except HooklakeError as error:
                    error.trace_id = span.trace_id  # For the log line, which is written when the span is over.
                    raise

    async def _verified(self, post: Post, *, source: Source, headers: Headers, held: Held, traceparent: str) -> Answer:
        refuse_framing(headers, max_bytes=source.max_body_bytes)
        timeout_ms, is_here = self.settings.body_timeout_ms, post.has_whole_body
        receive = post.receive if is_here else in_time(post.receive, timeout_ms=timeout_ms, pulse=post.pulse)
        body = await read_body(receive, max_bytes=source.max_body_bytes, held=held)
        request = Request(headers, body, query=post.query, public_url=source.public_url)
        now = self.clock.now()
        try:
            refuse_encoding(headers, allowed=source.encodings)
            if source.certificates is not None:
                await source.certificates.obtain(request, now=now)
            proof = verify(source.scheme, request=request, secrets=source.secrets, now=now)
            if proof.key_id:
                self.key_use.note(proof.key_id, tenant=source.tenant, source=source.name, now=now, log=self.telemetry.log)
            plain = self._plain(request, source=source, held=held)
            if source.answering.handshake != "none" and (answer := asked(source, plain=plain, proof=proof)) is not None:
                return answer
            pieces = pieces_of(source, request=request, plain=plain)
        except Refused as error:
            self.quarantine.take_in(source, request=request, error=error, received_at=now, remote_address=post.remote_address)
            raise
        believed = auth_context(source, proof=proof, verified_at=now, remote_address=post.remote_address)
        priority = self._priority(source)
        make = partial(event_of, source, priority=priority, received_at=now, proof=believed, traceparent=traceparent)
        events = [make(event_id=self.ids.mint(), piece=piece) for piece in pieces]
        reach("receiver.before_append")
        receipts = await self.keeper.keep(events)
        reach("receiver.before_answer")
        if source.answering.confirms and (subscription := subscription_in(source.answering, content=plain.json)) is not None:
            self.confirmations.begin(subscription)
        return source.answering.answer(receipts)

    def _plain(self, request: Request, *, source: Source, held: Held) -> Request:
        """What the body says, for describing it; what was signed and is stored is the body as it was sent."""
        if not source.encodings:
            return request
        plain = plain_body(request.body, encoding=request.headers.one("content-encoding"), max_bytes=source.max_body_bytes)
        if plain is request.body:
            return request
        held.grow(len(plain))
        return Request(request.headers, plain)

    def _priority(self, source: Source) -> Priority:
        """Charges the tenant's rate, where it has one: what is above it waits behind everybody else's events. Raises OverRate."""
        if source.rate is not None and self.rates.is_excess(source.tenant, settings=source.rate):
            return Priority.OVERFLOW
        return source.priority


def asked(source: Source, *, plain: Request, proof: Proof) -> Answer | None:
    """The answer to a handshake in a verified body; None for an event. Raises BadSignature for an SNS topic that is not the source's."""
    refuse_other_topics(source.answering, content=plain.json)
    signed_by = next((key for key in source.secrets if key.key_id == proof.key_id), None)
    return answer_to_body(source.answering, content=plain.json, key=signed_by)
