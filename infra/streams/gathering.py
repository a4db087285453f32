"""Owns gathering: events of a shard that are appended in one turn of the event loop share one call, and each has a receipt of its own.

A call costs the server as much as an event, whatever it carries. Nobody waits for company: an event that is alone goes alone.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from infra.clock import uuid_bytes, uuid_text
from infra.streams.entries import further_fields, values_of
from infra.streams.keys import EVENT_STREAMS
from infra.streams.scripts import Argument
from infra.streams.seen import SeenWindow, bucket_of, digest_of, marker_of
from schemas.event import Priority, StreamEvent
from schemas.receipt import Receipt

MOST_EVENTS = 8
MOST_BYTES = 1024 * 1024
"""A server does nothing else while it takes a batch."""
STREAM_NUMBERS = {Priority(name): number for number, name in enumerate(EVENT_STREAMS, start=1)}
ID_BYTES = 16
Replies = tuple[str, list[Any]]
"""The incarnation that events were appended in, and what the script said of each."""


class Batch:
    """Events of one shard and window, rechecked or not, on their way into one call of `append.lua`."""

    __slots__ = ("args", "events", "futures", "recheck", "shard", "size_bytes", "window")

    def __init__(self, shard: int, *, window: SeenWindow, recheck: bool) -> None:
        self.shard = shard
        self.window = window
        self.recheck = recheck
        """Its events have waited somewhere: they come in the order in which they did, and the archive looks for them in its table."""
        self.args: list[Argument] = []
        self.events: list[StreamEvent] = []
        self.futures: list[asyncio.Future[Receipt]] = []
        self.size_bytes = 0

    @property
    def is_full(self) -> bool:
        return len(self.events) >= MOST_EVENTS or self.size_bytes >= MOST_BYTES

    def add(self, event: StreamEvent) -> None:
        """Encoded at once, while the event's bytes are at hand."""
        further = further_fields(event)
        self.args += (_head(event, further=len(further)), *values_of(event), *further)
        self.events.append(event)
        self.size_bytes += len(event.payload)

    def settle(self, called: asyncio.Task[list[Receipt]]) -> None:
        """Tells everybody who waits. Who gave up has cancelled his future; the event is there all the same."""
        if called.cancelled():
            for future in self.futures:
                future.cancel()
        elif (error := called.exception()) is not None:
            for future in self.futures:
                if not future.done():
                    future.set_exception(error)
        else:
            for future, receipt in zip(self.futures, called.result(), strict=False):  # none, where somebody else awaits the call
                if not future.done():
                    future.set_result(receipt)

    def receipts(self, incarnation: str, replies: list[Any]) -> list[Receipt]:
        told, shard = zip(self.events, replies, strict=True), self.shard
        return [_receipt(event, reply, incarnation, shard) for event, reply in told]


class Gathering:
    """What was appended since the event loop last turned."""

    def __init__(self, send: Callable[[Batch], object]) -> None:
        self._send = send
        self._batches: dict[tuple[int, str, bool], Batch] = {}

    def append(self, event: StreamEvent, *, shard: int, window: SeenWindow, recheck: bool) -> asyncio.Future[Receipt]:
        """The future gets the receipt of the event, or the error of the call that it goes with."""
        loop, name = asyncio.get_running_loop(), (shard, window.name, recheck)
        if not self._batches:
            loop.call_soon(self.send)
        batch = self._batches.get(name)
        if batch is None:
            batch = self._batches[name] = Batch(shard, window=window, recheck=recheck)
        batch.add(event)
        future: asyncio.Future[Receipt] = loop.create_future()
        batch.futures.append(future)
        if batch.is_full:
            self._send(self._batches.pop(name))
        return future

    def send(self) -> None:
        batches, self._batches = self._batches, {}
        for batch in batches.values():
            self._send(batch)


def _head(event: StreamEvent, *, further: int) -> bytes:
    marker = marker_of(event)
    return b"%b%b%b%d%d%d" % (marker, uuid_bytes(event.id), digest_of(event), STREAM_NUMBERS[event.priority], further, bucket_of(marker))


def _receipt(event: StreamEvent, reply: bytes | list[Any], incarnation: str, shard: int) -> Receipt:
    """The id is the one that the server says it has appended: a reply to another call would show."""
    # In the order of its fields: by their names it would cost twice as much.
    if isinstance(reply, bytes):
        number, _, entry = reply[ID_BYTES:].partition(b"|")
        place = event.priority.value, incarnation, entry.decode(), int(number)
        return Receipt(uuid_text(reply[:ID_BYTES]), False, False, *place, False, shard)
    if len(reply) == 4:
        event_id, entry_id, number, conflict = reply
        place = event.priority.value, incarnation, entry_id.decode(), number
        return Receipt(uuid_text(event_id), False, conflict == 1, *place, entry_id == b"", shard)
    first_id, stream, of_first, entry_id, _ = reply
    return Receipt(uuid_text(first_id), True, False, stream.decode(), of_first.decode(), entry_id.decode(), 0, entry_id == b"", shard)
