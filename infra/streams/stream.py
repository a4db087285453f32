"""Owns appending events to the log: the middle of an event's life. Groups read them from there (`reading.py`).

An append returns when the entry is synced: the server runs with `appendfsync always`, so its reply leaves after the
fsync. Raises StreamUnavailable when the log cannot say so; the event may then be on the log or not, and appending the
same event again is harmless, since its delivery id is remembered in the same script that adds the entry.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any

from infra.clock import Clock
from infra.settings import LogSettings
from infra.streams.caps import mind_hard_cap
from infra.streams.framing import Command, Framed
from infra.streams.gathering import Batch, Gathering, Replies, promised
from infra.streams.keys import Keys
from infra.streams.lanes import Lane, Lanes
from infra.streams.prepared import Form, Prepared, prepare
from infra.streams.quarantine import encode_request, size_of
from infra.streams.scripts import Argument
from infra.streams.seen import SeenWindow
from schemas.errors import LogFull, StreamUnavailable
from schemas.event import Priority, StreamEvent, to_epoch_ms
from schemas.quarantined import QuarantinedRequest
from schemas.receipt import Receipt

MOST_PARTS = 1000
Windows = Mapping[tuple[str, str], SeenWindow]
"""By tenant and source, of those that have one of their own."""
NO_WINDOWS: Windows = MappingProxyType({})


class EventStream:
    """The log as a receiver sees it."""

    def __init__(self, lanes: Lanes, *, keys: Keys, window: SeenWindow, clock: Clock, windows: Windows = NO_WINDOWS) -> None:
        self._lanes = lanes
        self._keys = keys
        self._window = window
        self._windows = windows
        self._clock = clock
        self._gathering = Gathering(self._send)
        self._calls: set[asyncio.Task[list[Receipt]]] = set()
        self._places = [[keys.ledger(shard), *keys.event_streams(shard)] for shard in keys.all_shards()]
        """By shard, what every append names first."""

    @classmethod
    def open(cls, log: LogSettings, *, home: Path, clock: Clock | None = None, windows: Windows = NO_WINDOWS) -> EventStream:
        """Opens no connection yet: a receiver starts while its log is down.

        Whoever appends events of a source has to know its window: each one looks for duplicates among its own.
        """
        keys, window = Keys(log.prefix, log.shards), SeenWindow.parse(log.window)
        return cls(Lanes(log, home=home, keys=keys), keys=keys, window=window, clock=clock or Clock(), windows=windows)

    def append(self, event: StreamEvent, *, deliver_at: datetime | None = None, recheck: bool = False) -> asyncio.Future[Receipt]:
        """Puts the event on its stream unless it is there already; what is awaited raises StreamUnavailable, LogFull above the hard cap.

        With a `deliver_at` that the server's clock has not reached, the event is stored and waits; no group sees it before then.
        With `recheck` the archive looks for it in its table too: it may have been archived long ago. Such events, which have waited
        somewhere, are appended in the order of the calls, those of one shard and source, also where nobody has awaited them yet.
        """
        if deliver_at is not None:
            return asyncio.ensure_future(self._schedule(event, deliver_at_ms=to_epoch_ms(deliver_at), recheck=recheck))
        future: asyncio.Future[Receipt] = asyncio.get_running_loop().create_future()
        self._gathering.append(self._prepared(event), recheck=recheck, told=promised(future))
        return future

    def begin(self, batch: Batch) -> None:
        """The same for who has prepared events by their form, all that there are just now, and is told without awaiting anything."""
        self._send(batch)

    def form(self, tenant_id: str, source: str, *, priority: Priority) -> Form:
        """For the events of a source whose bodies are not split."""
        window = self._windows.get((tenant_id, source), self._window)
        return Form(self._keys, tenant_id=tenant_id, source=source, priority=priority, window=window)

    def _prepared(self, event: StreamEvent) -> Prepared:
        return prepare(event, keys=self._keys, window=self._windows.get((event.tenant_id, event.source), self._window))

    async def _schedule(self, event: StreamEvent, *, deliver_at_ms: int, recheck: bool) -> Receipt:
        return (await self._append(self._batch_of([event], recheck=recheck), deliver_at_ms=deliver_at_ms))[0]

    async def append_parts(self, events: Sequence[StreamEvent], *, recheck: bool = False) -> list[Receipt]:
        """Puts the parts of one body on their stream, each unless it is there already, all of them or none; raises like `append`.

        They have one tenant, source and priority, and are at most MOST_PARTS: a server does nothing else while it takes them.
        """
        self._gathering.send()  # They came before.
        return await self._call(self._batch_of(events, recheck=recheck))

    def _batch_of(self, events: Sequence[StreamEvent], *, recheck: bool) -> Batch:
        prepared = [self._prepared(event) for event in events]
        batch = Batch(prepared[0].shard, window=prepared[0].window, recheck=recheck)
        for event in prepared:
            batch.add(event)
        return batch

    def _send(self, batch: Batch) -> None:
        # Events that have waited keep their order among calls that have to be repeated, too: their calls queue up behind each other.
        if batch.recheck or not self._sends_at_once(batch):
            self._call(batch).add_done_callback(batch.settle)

    def _sends_at_once(self, batch: Batch) -> bool:
        """Nearly always a connection is open and the incarnation known on it: then nothing has to be awaited before the reply."""
        lane = self._lanes.freest()
        known = lane.incarnations.known(batch.shard)
        if known is None:
            return False
        incarnation, generation = known
        args = [incarnation, *self._args_of(batch)]
        call = lane.pipeline.begin("append", keys=self._places[batch.shard], args=args, generation=generation)
        if call is None:
            return False
        lane.calls += 1
        call.add_done_callback(partial(self._answered, batch, lane, incarnation))
        return True

    def _answered(self, batch: Batch, lane: Lane, incarnation: str, call: asyncio.Future[Any]) -> None:
        lane.calls -= 1
        if (failure := call.exception()) is not None:
            batch.fail(failure)
        elif type(reply := call.result()) is not list or reply[:1] in ([b"incarnation"], [b"full"]):
            # Nothing was appended: once more, the way that knows what to do then.
            self._call(batch).add_done_callback(batch.settle)
        else:
            batch.succeed(incarnation, reply)

    def _call(self, batch: Batch) -> asyncio.Task[list[Receipt]]:
        call = asyncio.get_running_loop().create_task(self._append(batch))
        self._calls.add(call)
        call.add_done_callback(self._calls.discard)
        return call

    async def _append(self, batch: Batch, *, deliver_at_ms: int = 0) -> list[Receipt]:
        """All of a batch or nothing of it; raises StreamUnavailable, LogFull."""
        args, shard = self._args_of(batch, deliver_at_ms=deliver_at_ms), batch.shard
        return batch.receipts(*await self._run("append", keys=self._places[shard], args=args, shard=shard, in_order=batch.recheck))

    def _args_of(self, batch: Batch, *, deliver_at_ms: int = 0) -> list[Argument | Framed]:
        """All but the incarnation."""
        window = batch.window
        stems = window.stems(self._keys, shard=batch.shard, now_ms=self._clock.now_ms())
        return [window.ttl_s, deliver_at_ms, int(batch.recheck), *stems, batch.args]

    async def quarantine(self, request: QuarantinedRequest, *, cap: int, cap_bytes: int) -> bool:
        """Keeps a refused request aside; false when its source has as many there as it may. Raises StreamUnavailable."""
        shard, size = self._keys.shard_for(request.event_id), size_of(request)
        # Each shard has its share of the caps, so that one script can hold to them.
        share, share_bytes = (max(1, most // self._keys.shards) for most in (cap, cap_bytes))
        whose = f"{request.tenant_id}:{request.source}"
        args: list[Argument] = [whose, share, share_bytes, size, *encode_request(request)]
        at = [self._keys.quarantine(shard), self._keys.ledger(shard)]
        _, reply = await self._run("quarantine", keys=at, args=args, shard=shard)
        return bool(reply[0] == b"kept")

    async def count_unkept(self, tenant: str, *, source: str, count: int) -> None:
        """Adds refused requests that were dropped before they came here; raises StreamUnavailable."""
        await self._lanes.first.call("HINCRBY", self._keys.ledger(0), f"unkept:{tenant}:{source}", count)

    async def note_used(self, used_ms: Mapping[tuple[str, str, str], int]) -> None:
        """Writes down when keys were used last, by tenant, source and key id; raises StreamUnavailable."""
        if used_ms:
            noted = [part for key, ms in used_ms.items() for part in (f"used:{':'.join(key)}", ms)]
            await self._lanes.first.run("note", keys=[self._keys.ledger(0)], args=noted)

    async def _run(self, name: str, *, keys: Sequence[str], args: Command, shard: int, in_order: bool = False) -> Replies:
        """The reply of a script whose first argument is the incarnation, which is told too."""
        with self._lanes.one(in_order=in_order) as lane:
            for _ in range(3):
                incarnation, generation = lane.incarnations.known(shard) or await lane.incarnations.of(shard)
                reply = await lane.pipeline.run(name, keys=keys, args=[incarnation, *args], generation=generation, is_confirmed=True)
                if reply[0] == b"full":
                    raise LogFull("the log is above log.hard_cap, so it takes nothing more until there is room")
                if reply[0] != b"incarnation":
                    return incarnation, reply
                # Somebody saw the server restart before we did: begin again, with the same event id.
                lane.incarnations.forget(shard)
        raise StreamUnavailable(f"shard {shard} of the log changes its incarnation faster than events can be appended")

    async def alias(self, event: StreamEvent, *, first_id: str) -> None:
        """Records that an event whose id was given to its sender is an earlier one's duplicate; repeating is harmless."""
        shard = self._keys.shard_of(event)
        at = [self._keys.ledger(shard), self._keys.outcomes(shard)]
        await self._lanes.first.run("alias", keys=at, args=[event.id, first_id, event.tenant_id, event.source], is_confirmed=True)

    def shard_of(self, event: StreamEvent) -> int:
        return self._keys.shard_of(event)

    def fate_of(self, shard: int) -> Iterable[int]:
        """The shards that are lost with this one: on one server all of them, on a cluster perhaps only itself."""
        return self._keys.all_shards() if self._lanes.one_keyspace else (shard,)

    @property
    def generation(self) -> int:
        """Which connection was made last: a new one may lead to another server."""
        return self._lanes.generations.newest

    async def is_ready(self) -> bool:
        """True when the log answers within its time."""
        try:
            return bool(await self._lanes.first.call("PING") == b"PONG")
        except StreamUnavailable:
            return False

    async def mind_hard_cap(self, log: LogSettings) -> bool:
        """Has appends refused while the log is above its hard cap; true when they are. To be called about once a second."""
        return await mind_hard_cap(self._lanes.first, keys=self._keys, log=log)

    async def close(self) -> None:
        await self._lanes.close()
