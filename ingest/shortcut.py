"""Owns the short way of a webhook through the receiver: one that is here whole, and is as usual, is read at once and kept.

Without ASGI, and while the log takes events without a task or a `StreamEvent`: it is appended by the form of its source. Whatever is
not as simple as that (`quick.py`) takes the long way (`receive.py`), and so does every refusal of the sender's.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from datetime import datetime
from typing import Any, NamedTuple

from infra.clock import moment
from infra.failpoints import reach
from infra.running.direct import Arrived, Exchange
from infra.streams.prepared import Form, Prepared
from ingest.answers import Answer, accepted, accepted_one
from ingest.events import auth_context, auth_values, event_of
from ingest.keeping import Keeper
from ingest.proxies import Proxies
from ingest.quick import Read, Reader, reader_of
from ingest.receive import Receiver
from ingest.sources import Source
from ingest.splitting import Piece
from schemas.event import StreamEvent
from schemas.receipt import Receipt

Refuse = Callable[[BaseException, str, str], Answer]
"""The answer to what a request ended by, which is noted with its path and the address of its sender."""


class Way(NamedTuple):
    """What is known of a source before its requests come."""

    source: Source
    reader: Reader
    form: Form


class Webhook(NamedTuple):
    """One that was read: all that an event is made of."""

    source: Source
    read: Read
    payload: bytes
    event_id: str
    received_ms: int
    received_at: datetime
    address: str
    traceparent: str

    def prepared(self, form: Form) -> Prepared:
        """As the log takes it, without making an event of it first; a test holds the two against each other."""
        event_type, repository, delivery_id, key, content_type, headers = self.read.described
        return form.fill(
            self.event_id,
            event_type=event_type,
            repository=repository,
            delivery_id=delivery_id,
            key=key,
            received_ms=self.received_ms,
            payload=self.payload,
            content_type=content_type,
            headers=headers,
            auth=auth_values(self.source, proof=self.read.proof, verified_at=self.received_at, remote_address=self.address),
            traceparent=self.traceparent,
        )

    def event(self) -> StreamEvent:
        source = self.source
        return event_of(
            source,
            event_id=self.event_id,
            piece=Piece(self.read.described, self.payload),
            priority=source.priority,
            received_at=self.received_at,
            proof=auth_context(source, proof=self.read.proof, verified_at=self.received_at, remote_address=self.address),
            traceparent=self.traceparent,
        )


class Shortcut:
    """Answers webhooks that are here whole."""

    def __init__(self, receiver: Receiver, *, proxies: Proxies, refuse: Refuse) -> None:
        self._receiver = receiver
        self._in_flight, self._keeper = receiver.in_flight, receiver.keeper
        self._most_headers, self._most_bytes = receiver.settings.max_headers, receiver.settings.max_header_bytes
        self._proxies = proxies
        self._refuse = refuse
        routes = receiver.sources.by_route.values() if not receiver.telemetry.records_spans else ()
        ways = (_way(source, keeper=receiver.keeper) for source in routes)
        self._ways = {f"/hooks/{way.source.tenant}/{way.source.name}".encode(): way for way in ways if way is not None}
        self._waiting: set[asyncio.Task[None]] = set()

    def __call__(self, arrived: Arrived, exchange: Exchange) -> bool:
        """Begins to answer; false leaves the request to the long way."""
        way = self._ways.get(arrived.target)
        if way is None:
            return False
        try:
            return self._begins(arrived, exchange, way)
        except Exception as error:
            # The edge: nobody expected it, so it is no fault of the sender, who would be told 400 by the server around us.
            exchange.answer(self._refuse(error, arrived.target.decode(), arrived.peer))
            return True

    def _begins(self, arrived: Arrived, exchange: Exchange, way: Way) -> bool:
        _, raw_headers, body, peer, head_bytes = arrived
        source, reader, form = way
        headers, size_bytes = dict(raw_headers), len(body)
        if len(headers) < len(raw_headers) or len(headers) > self._most_headers or head_bytes > self._most_bytes:
            return False
        if size_bytes > source.max_body_bytes or not self._in_flight.has_room(size_bytes):
            return False
        receiver, now_ms = self._receiver, self._receiver.clock.now_ms()
        now = moment(now_ms)
        read = reader.read(headers, body, now=now)
        if read is None:
            return False
        telemetry, keeper = receiver.telemetry, self._keeper
        if key_id := read.proof.key_id:
            receiver.key_use.note(key_id, tenant=source.tenant, source=source.name, now=now, log=telemetry.log)
        address = self._proxies.sender(peer, raw_headers=raw_headers)
        webhook = Webhook(source, read, body, receiver.ids.mint(), now_ms, now, address, telemetry.new_traceparent())
        reach("receiver.before_append")
        if keeper.takes_at_once:
            prepared = webhook.prepared(form)
            self._in_flight.take(size_bytes)
            keeper.begin(prepared, told=lambda receipt, error: self._told(receipt, error, webhook=webhook, exchange=exchange))
        else:
            event = webhook.event()
            self._in_flight.take(size_bytes)
            self._wait(webhook, exchange, keeper.keep([event]))
        return True

    def _told(self, receipt: Receipt | None, error: BaseException | None, *, webhook: Webhook, exchange: Exchange) -> None:
        source = webhook.source
        try:
            event_type = webhook.read.described.event_type
            if receipt is None or not self._keeper.ended(receipt, tenant=source.tenant, source=source.name, event_type=event_type):
                # The log did not take it, or is not known to keep what it takes: what then, is the same as on the long way.
                self._wait(webhook, exchange, self._keeper.finish(webhook.event(), receipt=receipt, error=error))
                return
            reach("receiver.before_answer")
            answer = source.answering.fixed or accepted_one(receipt)
        except Exception as unexpected:
            # The edge, as in `__call__`.
            answer = self._refusal(unexpected, webhook=webhook)
        self._answer(answer, webhook=webhook, exchange=exchange)

    def _wait(self, webhook: Webhook, exchange: Exchange, keeping: Coroutine[Any, Any, list[Receipt]]) -> None:
        task = asyncio.get_running_loop().create_task(self._kept(webhook, exchange, keeping))
        self._waiting.add(task)
        task.add_done_callback(self._waiting.discard)

    async def _kept(self, webhook: Webhook, exchange: Exchange, keeping: Coroutine[Any, Any, list[Receipt]]) -> None:
        try:
            receipts = await keeping
            reach("receiver.before_answer")
            answer = webhook.source.answering.fixed or accepted(receipts)
        except (Exception, asyncio.CancelledError) as error:
            # The edge: the same as that of the long way.
            answer = self._refusal(error, webhook=webhook)
        self._answer(answer, webhook=webhook, exchange=exchange)

    def _refusal(self, error: BaseException, *, webhook: Webhook) -> Answer:
        return self._refuse(error, f"/hooks/{webhook.source.tenant}/{webhook.source.name}", webhook.address)

    def _answer(self, answer: Answer, *, webhook: Webhook, exchange: Exchange) -> None:
        self._in_flight.leave(len(webhook.payload))
        exchange.answer(answer)


def _way(source: Source, *, keeper: Keeper) -> Way | None:
    reader = reader_of(source)
    return Way(source, reader, keeper.form(source.tenant, source.name, priority=source.priority)) if reader is not None else None
