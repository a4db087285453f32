"""Owns the webhooks of one turn of the event loop: appended together, and answered together when the log has them.

What is the same for all of them is asked once (the time, whether the log takes events) or done once (notes, counts, the head of the
answers). None of them waits for company longer than until that turn is over, or there are as many as one call carries; and none has to
answer for another: what goes wrong with one is its own 503.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from datetime import datetime
from typing import Any, NamedTuple

from infra.clock import moment
from infra.failpoints import reach
from infra.running.direct import Exchange
from infra.streams.entries import auth_json
from infra.streams.gathering import MOST_EVENTS, Batch
from infra.streams.prepared import ID_BYTES, Form, Prepared
from infra.streams.seen import SeenWindow
from ingest.answers import ACCEPTED, Answer, accepted_one, json_headers, new_event
from ingest.appending import Owner
from ingest.events import auth_context, auth_values, event_of
from ingest.quick import Read, Reader
from ingest.receive import Receiver
from ingest.sources import Source
from ingest.splitting import Piece
from schemas.event import StreamEvent
from schemas.receipt import Receipt

Refuse = Callable[[BaseException, str, str], Answer]
"""The answer to what a request ended by, which is noted with its path and the address of its sender."""


class Way:
    """What is known of a source before its requests come."""

    __slots__ = ("answering", "form", "is_answered_alike", "owner", "reader", "source")

    def __init__(self, source: Source, *, reader: Reader, form: Form) -> None:
        self.source = source
        self.reader = reader
        self.form = form
        self.answering = source.answering
        self.is_answered_alike = source.answering.fixed is None and source.answering.status == ACCEPTED
        """As nearly all sources are."""
        self.owner = (source.tenant, source.name)


class Webhook(NamedTuple):
    """One that was read and believed."""

    way: Way
    read: Read
    payload: bytes
    address: str
    exchange: Exchange

    def prepared(self, event_id: str, *, received_ms: int, received_at: datetime, traceparent: str) -> Prepared:
        """As the log takes it, without making an event of it first; a test holds the two against each other."""
        read = self.read
        return self.way.form.fill(
            event_id,
            event_type=read.event_type,
            repository=read.repository,
            delivery_id=read.delivery_id,
            key=read.key,
            received_ms=received_ms,
            payload=self.payload,
            content_type=read.content_type,
            headers=read.headers,
            auth=auth_json(auth_values(self.way.source, proof=read, verified_at=received_at, remote_address=self.address)),
            traceparent=traceparent,
        )

    def event(self, event_id: str, *, received_at: datetime, traceparent: str) -> StreamEvent:
        source, read = self.way.source, self.read
        believed = auth_context(source, proof=read, verified_at=received_at, remote_address=self.address)
        piece = Piece(read.described, self.payload)
        made = {"event_id": event_id, "received_at": received_at, "traceparent": traceparent}
        return event_of(source, piece=piece, priority=source.priority, proof=believed, **made)  # type: ignore[arg-type]


class Company(Batch):
    """Webhooks of a turn that share a call: each event with the webhook that it came by."""

    __slots__ = ("received_at", "turns", "webhooks")

    def __init__(self, turns: Turns, *, shard: int, window: SeenWindow, received_at: datetime) -> None:
        super().__init__(shard, window=window, recheck=False)
        self.turns = turns
        self.received_at = received_at
        self.webhooks: list[Webhook] = []

    def event(self, place: int) -> StreamEvent:
        prepared = self.events[place]
        return self.webhooks[place].event(prepared.event_id, received_at=self.received_at, traceparent=prepared.traceparent)

    def succeed(self, incarnation: str, replies: list[Any]) -> None:
        if not self.turns.taken(self, incarnation, replies):
            super().succeed(incarnation, replies)

    def tell(self, receipts: list[Receipt]) -> None:
        for place, receipt in enumerate(receipts):
            self.turns.told(self, place, receipt=receipt, error=None)

    def fail(self, error: BaseException) -> None:
        for place in range(len(self.webhooks)):
            self.turns.told(self, place, receipt=None, error=error)


class Turns:
    """All turns of a receiver, one after the other."""

    def __init__(self, receiver: Receiver, *, refuse: Refuse) -> None:
        self._receiver = receiver
        self._in_flight, self._keeper, self._telemetry = receiver.in_flight, receiver.keeper, receiver.telemetry
        self._refuse = refuse
        self._webhooks: list[Webhook] = []
        self._waiting: set[asyncio.Task[None]] = set()

    def add(self, webhook: Webhook) -> None:
        """It has its answer at some time, whatever happens."""
        if not self._webhooks:
            asyncio.get_running_loop().call_soon(self._end)
        self._in_flight.take(len(webhook.payload))
        self._webhooks.append(webhook)
        if len(self._webhooks) >= MOST_EVENTS:
            self._end()  # The log need not wait for the rest of the turn.

    def _end(self) -> None:
        webhooks, self._webhooks = self._webhooks, []
        if not webhooks:
            return  # They are on their way already.
        try:
            now_ms = self._receiver.clock.now_ms()
            now = moment(now_ms)
            self._note_keys(webhooks, now=now)
            reach("receiver.before_append")
            ids, takes_at_once = self._receiver.ids.mint_many(len(webhooks)), self._keeper.takes_at_once
        except Exception as error:
            # The edge: nobody expected it, so it is no fault of the senders, who would wait for ever.
            for webhook in webhooks:
                self._fail(webhook, error)
            return
        if takes_at_once:
            for company in self._companies(webhooks, ids, now_ms=now_ms, now=now):
                self._begin(company)
        else:
            for webhook, event_id in zip(webhooks, ids, strict=True):
                self._keep(webhook, event_id, now=now)

    def _note_keys(self, webhooks: Sequence[Webhook], *, now: datetime) -> None:
        for (tenant, source), key_id in {(webhook.way.owner, webhook.read.key_id) for webhook in webhooks}:
            if key_id:
                self._receiver.key_use.note(key_id, tenant=tenant, source=source, now=now, log=self._telemetry.log)

    def _companies(self, webhooks: Sequence[Webhook], ids: Sequence[str], *, now_ms: int, now: datetime) -> list[Company]:
        """Those that can share a call, in the order in which they came."""
        companies: list[Company] = []
        newest: dict[tuple[int, str], Company] = {}
        new_traceparent = self._telemetry.new_traceparent
        for webhook, event_id in zip(webhooks, ids, strict=True):
            try:
                event = webhook.prepared(event_id, received_ms=now_ms, received_at=now, traceparent=new_traceparent())
            except Exception as error:
                # The edge: whatever is odd about this one, the others are not to suffer for it.
                self._fail(webhook, error)
                continue
            name = (event.shard, event.window.name)
            company = newest.get(name)
            if company is None or company.is_full:
                company = newest[name] = Company(self, shard=event.shard, window=event.window, received_at=now)
                companies.append(company)
            company.add(event)
            company.webhooks.append(webhook)
        return companies

    def _begin(self, company: Company) -> None:
        try:
            self._keeper.begin(company)
        except Exception as error:
            # The edge, as in `_end`.
            company.fail(error)

    def _keep(self, webhook: Webhook, event_id: str, *, now: datetime) -> None:
        """As the long way does: the log takes no events just now, or may not."""
        try:
            event = webhook.event(event_id, received_at=now, traceparent=self._telemetry.new_traceparent())
        except Exception as error:
            # The edge, as in `_companies`.
            self._fail(webhook, error)
        else:
            self._wait(webhook, self._keeper.keep([event]))

    def taken(self, company: Company, incarnation: str, replies: list[Any]) -> bool:
        """Answers all of them, if the log says of each that it is new; false where there is more to say, or something is odd."""
        numbers = numbers_of(company.events, replies)
        if numbers is None:
            return False
        # Of one stream they only grow.
        highest = {(company.shard, event.stream, incarnation): number for event, number in zip(company.events, numbers, strict=True)}
        counts: dict[Owner, int] = {}
        for webhook in company.webhooks:
            counts[webhook.way.owner] = counts.get(webhook.way.owner, 0) + 1
        try:
            if not self._keeper.all_ended(counts, highest=highest):
                return False
            reach("receiver.before_answer")
        except Exception as error:
            # The edge, as in `_end`.
            for webhook in company.webhooks:
                self._fail(webhook, error)
        else:
            self._answer_all(company)
        return True

    def _answer_all(self, company: Company) -> None:
        self._in_flight.leave(company.size_bytes, count=len(company.webhooks))
        headers = json_headers(new_event(company.events[0].event_id))
        head = company.webhooks[0].exchange.head(ACCEPTED, headers)
        for webhook, event in zip(company.webhooks, company.events, strict=True):
            exchange, body = webhook.exchange, new_event(event.event_id)
            if webhook.way.is_answered_alike and exchange.keep_alive:
                exchange.answer_with(head, body)
            else:
                exchange.answer(webhook.way.answering.fixed or (webhook.way.answering.status, headers, body))

    def told(self, company: Company, place: int, *, receipt: Receipt | None, error: BaseException | None) -> None:
        """What came of one of them."""
        webhook = company.webhooks[place]
        source = webhook.way.source
        try:
            if not self._keeper.ended(receipt, tenant=source.tenant, source=source.name, event_type=webhook.read.event_type):
                # The log did not take it, or is not known to keep what it takes: what then, is the same as on the long way.
                self._wait(webhook, self._keeper.finish(company.event(place), receipt=receipt, error=error))
                return
            assert receipt is not None
            reach("receiver.before_answer")
            answer = webhook.way.answering.fixed or accepted_one(receipt, status=webhook.way.answering.status)
        except Exception as unexpected:
            # The edge, as in `_end`.
            answer = self._refusal(webhook, unexpected)
        self._answer(webhook, answer)

    def _wait(self, webhook: Webhook, keeping: Coroutine[Any, Any, list[Receipt]]) -> None:
        task = asyncio.get_running_loop().create_task(self._kept(webhook, keeping))
        self._waiting.add(task)
        task.add_done_callback(self._waiting.discard)

    async def _kept(self, webhook: Webhook, keeping: Coroutine[Any, Any, list[Receipt]]) -> None:
        try:
            receipts = await keeping
            reach("receiver.before_answer")
            answer = webhook.way.answering.answer(receipts)
        except (Exception, asyncio.CancelledError) as error:
            # The edge: the same as that of the long way.
            answer = self._refusal(webhook, error)
        self._answer(webhook, answer)

    def _fail(self, webhook: Webhook, error: BaseException) -> None:
        self._answer(webhook, self._refusal(webhook, error))

    def _refusal(self, webhook: Webhook, error: BaseException) -> Answer:
        tenant, source = webhook.way.owner
        return self._refuse(error, f"/hooks/{tenant}/{source}", webhook.address)

    def _answer(self, webhook: Webhook, answer: Answer) -> None:
        self._in_flight.leave(len(webhook.payload))
        webhook.exchange.answer(answer)


def numbers_of(events: Sequence[Prepared], replies: Sequence[Any]) -> list[int] | None:
    """What the log numbered them, if it says of each that it is on its stream, and of no other; pure."""
    numbers = []
    for event, reply in zip(events, replies, strict=False):
        if type(reply) is not bytes or not event.is_meant(reply[:ID_BYTES]):
            return None
        number, _, _ = reply[ID_BYTES:].partition(b"|")
        if not number.isdigit():
            return None
        numbers.append(int(number))
    return numbers if len(replies) == len(events) else None
