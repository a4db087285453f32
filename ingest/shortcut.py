"""Owns the short way of a webhook through the receiver: one that is here whole, and is as usual, is read at once and kept.

Without ASGI, and while the log takes events without a task. Whatever is not as simple as that (`quick.py`) takes the long way
(`receive.py`), and so does every refusal of the sender's.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any

from infra.failpoints import reach
from infra.running.direct import Arrived, Exchange
from ingest.answers import Answer, accepted
from ingest.events import auth_context, event_of
from ingest.proxies import Proxies
from ingest.quick import Reader, reader_of
from ingest.receive import Receiver
from ingest.sources import Source
from ingest.splitting import Piece
from schemas.event import StreamEvent
from schemas.receipt import Receipt

Refuse = Callable[[BaseException, str, str], Answer]
"""The answer to what a request ended by, which is noted with its path and the address of its sender."""


class Shortcut:
    """Answers webhooks that are here whole."""

    def __init__(self, receiver: Receiver, *, proxies: Proxies, refuse: Refuse) -> None:
        self._receiver = receiver
        self._in_flight, self._keeper = receiver.in_flight, receiver.keeper
        self._most_headers, self._most_bytes = receiver.settings.max_headers, receiver.settings.max_header_bytes
        self._proxies = proxies
        self._refuse = refuse
        routes = receiver.sources.by_route.values() if not receiver.telemetry.records_spans else ()
        self._ways = {f"/hooks/{source.tenant}/{source.name}".encode(): way for source in routes if (way := _way(source))}
        self._waiting: set[asyncio.Task[None]] = set()

    def __call__(self, arrived: Arrived, exchange: Exchange) -> bool:
        """Begins to answer; false leaves the request to the long way."""
        way = self._ways.get(arrived.target)
        if way is None:
            return False
        try:
            return self._begins(arrived, exchange, *way)
        except Exception as error:
            # The edge: nobody expected it, so it is no fault of the sender, who would be told 400 by the server around us.
            exchange.answer(self._refuse(error, arrived.target.decode(), arrived.peer))
            return True

    def _begins(self, arrived: Arrived, exchange: Exchange, source: Source, reader: Reader) -> bool:
        headers, size_bytes = dict(arrived.headers), len(arrived.body)
        is_repeated, is_many = len(headers) < len(arrived.headers), len(headers) > self._most_headers
        is_large = size_bytes > source.max_body_bytes or arrived.head_bytes > self._most_bytes
        if is_repeated or is_many or is_large or not self._in_flight.has_room(size_bytes):
            return False
        receiver, now = self._receiver, self._receiver.clock.now()
        read = reader.read(headers, arrived.body, now=now)
        if read is None:
            return False
        address = self._proxies.sender(arrived.peer, raw_headers=arrived.headers)
        if read.proof.key_id:
            receiver.key_use.note(read.proof.key_id, tenant=source.tenant, source=source.name, now=now, log=receiver.telemetry.log)
        event = event_of(
            source,
            event_id=receiver.ids.mint(),
            piece=Piece(read.described, arrived.body),
            priority=source.priority,
            received_at=now,
            proof=auth_context(source, proof=read.proof, verified_at=now, remote_address=address),
            traceparent=receiver.telemetry.new_traceparent(),
        )
        reach("receiver.before_append")
        appending = self._keeper.begin(event) if self._keeper.takes_at_once else None
        self._in_flight.take(size_bytes)
        if appending is not None:
            appending.add_done_callback(partial(self._appended, source, event, exchange))
        else:
            self._wait(source, event, exchange, self._keeper.keep([event]))
        return True

    def _appended(self, source: Source, event: StreamEvent, exchange: Exchange, appending: asyncio.Future[Receipt]) -> None:
        try:
            receipt = self._keeper.ended(event, appending=appending)
        except Exception as error:
            self._answer(self._refusal(error, event=event), event=event, exchange=exchange)
            return
        if receipt is None:
            # The log did not take it, or is not known to keep what it takes: what then, is the same as on the long way.
            self._wait(source, event, exchange, self._keeper.finish(event, appending=appending))
            return
        reach("receiver.before_answer")
        self._answer(source.answering.fixed or accepted([receipt]), event=event, exchange=exchange)

    def _wait(self, source: Source, event: StreamEvent, exchange: Exchange, keeping: Coroutine[Any, Any, list[Receipt]]) -> None:
        task = asyncio.get_running_loop().create_task(self._kept(source, event, exchange, keeping))
        self._waiting.add(task)
        task.add_done_callback(self._waiting.discard)

    async def _kept(self, source: Source, event: StreamEvent, exchange: Exchange, keeping: Coroutine[Any, Any, list[Receipt]]) -> None:
        try:
            receipts = await keeping
            reach("receiver.before_answer")
            answer = source.answering.fixed or accepted(receipts)
        except (Exception, asyncio.CancelledError) as error:
            # The edge: the same as that of the long way.
            answer = self._refusal(error, event=event)
        self._answer(answer, event=event, exchange=exchange)

    def _refusal(self, error: BaseException, *, event: StreamEvent) -> Answer:
        return self._refuse(error, f"/hooks/{event.tenant_id}/{event.source}", event.auth_context.remote_address)

    def _answer(self, answer: Answer, *, event: StreamEvent, exchange: Exchange) -> None:
        self._in_flight.leave(len(event.payload))
        exchange.answer(answer)


def _way(source: Source) -> tuple[Source, Reader] | None:
    reader = reader_of(source)
    return None if reader is None else (source, reader)
