"""Owns gathering: events of a shard that are appended in one turn of the event loop share one call, and each has a receipt of its own.

A call costs the server as much as an event, whatever it carries. Nobody waits for company: an event that is alone goes alone.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from infra.clock import uuid_text
from infra.streams.framing import Framed
from infra.streams.prepared import ID_BYTES, Prepared
from infra.streams.seen import SeenWindow
from schemas.errors import StreamUnavailable
from schemas.receipt import Receipt

MOST_EVENTS = 16
MOST_BYTES = 1024 * 1024
"""A server does nothing else while it takes a batch."""
Told = Callable[[Receipt | None, BaseException | None], None]
"""Who waits for an event hears its receipt, or why there is none; he must not raise."""
Replies = tuple[str, list[Any]]
"""The incarnation that events were appended in, and what the script said of each."""


class Batch:
    """Events of one shard and window, rechecked or not, on their way into one call of `append.lua`."""

    __slots__ = ("events", "frames", "many", "recheck", "shard", "size_bytes", "waiting", "window")

    def __init__(self, shard: int, *, window: SeenWindow, recheck: bool) -> None:
        self.shard = shard
        self.window = window
        self.recheck = recheck
        """Its events have waited somewhere: they come in the order in which they did, and the archive looks for them in its table."""
        self.many = 0
        self.frames: list[bytes] = []
        self.events: list[Prepared] = []
        self.waiting: list[Told] = []
        self.size_bytes = 0

    @property
    def args(self) -> Framed:
        """What the script is told of its events."""
        return Framed(self.many, self.frames)

    @property
    def is_full(self) -> bool:
        return len(self.events) >= MOST_EVENTS or self.size_bytes >= MOST_BYTES

    def add(self, event: Prepared) -> None:
        self.many += event.many
        self.frames += event.frames
        self.events.append(event)
        self.size_bytes += event.size_bytes

    def tell(self, receipts: list[Receipt]) -> None:
        for told, receipt in zip(self.waiting, receipts, strict=True):
            told(receipt, None)

    def fail(self, error: BaseException) -> None:
        for told in self.waiting:
            told(None, error)

    def settle(self, called: asyncio.Task[list[Receipt]]) -> None:
        """Tells everybody what came of the call."""
        if called.cancelled():
            self.fail(asyncio.CancelledError())
        elif (error := called.exception()) is not None:
            self.fail(error)
        else:
            self.tell(called.result())

    def succeed(self, incarnation: str, replies: list[Any]) -> None:
        """Tells everybody what the script said."""
        try:
            receipts = self.receipts(incarnation, replies)
        except (StreamUnavailable, ValueError, TypeError, AttributeError) as error:
            self.fail(error)
        else:
            self.tell(receipts)

    def receipts(self, incarnation: str, replies: list[Any]) -> list[Receipt]:
        """Raises StreamUnavailable for a reply to another call; ValueError, TypeError or AttributeError for what makes no sense."""
        told, shard = zip(self.events, replies, strict=True), self.shard
        return [_receipt(event, reply, incarnation, shard) for event, reply in told]


class Gathering:
    """What was appended since the event loop last turned."""

    def __init__(self, send: Callable[[Batch], object]) -> None:
        self._send = send
        self._batches: dict[tuple[int, str, bool], Batch] = {}

    def append(self, event: Prepared, *, recheck: bool, told: Told) -> None:
        name = (event.shard, event.window.name, recheck)
        if not self._batches:
            asyncio.get_running_loop().call_soon(self.send)
        batch = self._batches.get(name)
        if batch is None:
            batch = self._batches[name] = Batch(event.shard, window=event.window, recheck=recheck)
        batch.add(event)
        batch.waiting.append(told)
        if batch.is_full:
            self._send(self._batches.pop(name))

    def send(self) -> None:
        batches, self._batches = self._batches, {}
        for batch in batches.values():
            self._send(batch)


def promised(future: asyncio.Future[Receipt]) -> Told:
    """Who awaits a future. One that gave up has cancelled it; the event is there all the same."""

    def told(receipt: Receipt | None, error: BaseException | None) -> None:
        if future.done():
            return
        if isinstance(error, asyncio.CancelledError):
            future.cancel()
        elif error is not None:
            future.set_exception(error)
        elif receipt is not None:
            future.set_result(receipt)

    return told


def _receipt(event: Prepared, reply: bytes | list[Any], incarnation: str, shard: int) -> Receipt:
    # In the order of its fields: by their names it would cost twice as much.
    if isinstance(reply, bytes):
        if not event.is_meant(reply[:ID_BYTES]):
            raise StreamUnavailable(f"the log did not answer about event {event.event_id}, but about another one")
        number, _, entry = reply[ID_BYTES:].partition(b"|")
        return Receipt(event.event_id, False, False, event.stream, incarnation, entry.decode(), int(number), False, shard)
    if len(reply) == 4:
        event_id, entry_id, number, conflict = reply
        place = event.stream, incarnation, entry_id.decode(), number
        return Receipt(uuid_text(event_id), False, conflict == 1, *place, entry_id == b"", shard)
    first_id, stream, of_first, entry_id, _ = reply
    return Receipt(uuid_text(first_id), True, False, stream.decode(), of_first.decode(), entry_id.decode(), 0, entry_id == b"", shard)
