"""Owns appending events to the log: the middle of an event's life. Groups read them from there (`reading.py`).

An append returns when the entry is synced: the server runs with `appendfsync always`, so its reply leaves after the
fsync. Raises StreamUnavailable when the log cannot say so; the event may then be on the log or not, and appending the
same event again is harmless, since its delivery id is remembered in the same script that adds the entry.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from types import MappingProxyType
from typing import Any

from infra.clock import Clock, uuid_bytes, uuid_text
from infra.settings import LogSettings
from infra.streams.caps import mind_hard_cap
from infra.streams.connection import open_pipeline
from infra.streams.entries import encode, further_fields, values_of
from infra.streams.keys import EVENT_STREAMS, Keys, why_other_shards
from infra.streams.pipelining import Pipeline
from infra.streams.quarantine import encode_request, size_of
from infra.streams.seen import SeenWindow, bucket_of, digest_of, marker_of
from schemas.errors import ConfigError, LogFull, StreamUnavailable
from schemas.event import StreamEvent, to_epoch_ms
from schemas.quarantined import QuarantinedRequest
from schemas.receipt import Receipt

MOST_PARTS = 1000
Windows = Mapping[tuple[str, str], SeenWindow]
"""By tenant and source, of those that have one of their own."""
NO_WINDOWS: Windows = MappingProxyType({})


class EventStream:
    """The log as a receiver sees it."""

    def __init__(self, pipeline: Pipeline, *, keys: Keys, window: SeenWindow, clock: Clock, windows: Windows = NO_WINDOWS) -> None:
        self._pipeline = pipeline
        self._keys = keys
        self._window = window
        self._windows = windows
        self._clock = clock
        self._incarnations = Incarnations(pipeline, keys=keys)
        self._places = [[(stream, keys.ledger(shard)) for stream in keys.event_streams(shard)] for shard in keys.all_shards()]
        """By shard and priority, what every append names first."""

    @classmethod
    def open(cls, log: LogSettings, *, home: Path, clock: Clock | None = None, windows: Windows = NO_WINDOWS) -> EventStream:
        """Opens no connection yet: a receiver starts while its log is down.

        Whoever appends events of a source has to know its window: each one looks for duplicates among its own.
        """
        keys, window = Keys(log.prefix, log.shards), SeenWindow.parse(log.window)
        return cls(open_pipeline(log, home=home), keys=keys, window=window, clock=clock or Clock(), windows=windows)

    async def append(self, event: StreamEvent, *, deliver_at: datetime | None = None, recheck: bool = False) -> Receipt:
        """Puts the event on its stream unless it is there already; raises StreamUnavailable, LogFull above the hard cap.

        With a `deliver_at` that the server's clock has not reached, the event is stored and waits; no group sees it before then.
        With `recheck` the archive looks for it in its table too: it may have been archived long ago.
        """
        shard = self._keys.shard_of(event)
        call = self._append_call(event, shard=shard, deliver_at=deliver_at, recheck=recheck)
        return _receipt(await self._run("append", call=call, shard=shard), shard=shard)

    async def append_parts(self, events: Sequence[StreamEvent], *, recheck: bool = False) -> list[Receipt]:
        """Puts the parts of one body on their stream, each unless it is there already, all of them or none; raises like `append`.

        They have one tenant, source and priority, and are at most MOST_PARTS: a server does nothing else while it takes them.
        """
        shard = self._keys.shard_of(events[0])
        call = self._parts_call(events, shard=shard, recheck=recheck)
        return [_receipt(reply, shard=shard) for reply in await self._run("append_parts", call=call, shard=shard)]

    async def quarantine(self, request: QuarantinedRequest, *, cap: int, cap_bytes: int) -> bool:
        """Keeps a refused request aside; false when its source has as many there as it may. Raises StreamUnavailable."""
        shard, size = self._keys.shard_for(request.event_id), size_of(request)
        # Each shard has its share of the caps, so that one script can hold to them.
        share, share_bytes = (max(1, most // self._keys.shards) for most in (cap, cap_bytes))
        whose = f"{request.tenant_id}:{request.source}"
        args: list[str | bytes | int] = [whose, share, share_bytes, size, *encode_request(request)]
        call = _Call(keys=[self._keys.quarantine(shard), self._keys.ledger(shard)], args=args)
        return bool((await self._run("quarantine", call=call, shard=shard))[0] == b"kept")

    async def count_unkept(self, tenant: str, *, source: str, count: int) -> None:
        """Adds refused requests that were dropped before they came here; raises StreamUnavailable."""
        await self._pipeline.call("HINCRBY", self._keys.ledger(0), f"unkept:{tenant}:{source}", count)

    async def note_used(self, used_ms: Mapping[tuple[str, str, str], int]) -> None:
        """Writes down when keys were used last, by tenant, source and key id; raises StreamUnavailable."""
        if used_ms:
            noted = [part for key, ms in used_ms.items() for part in (f"used:{':'.join(key)}", ms)]
            await self._pipeline.run("note", keys=[self._keys.ledger(0)], args=noted)

    async def _run(self, name: str, *, call: _Call, shard: int) -> Any:
        for _ in range(3):
            incarnation, generation = self._incarnations.known(shard) or await self._incarnations.of(shard)
            args = [incarnation, *call.args]
            reply = await self._pipeline.run(name, keys=call.keys, args=args, generation=generation, is_confirmed=True)
            if reply[0] == b"full":
                raise LogFull("the log is above log.hard_cap, so it takes nothing more until there is room")
            if reply[0] != b"incarnation":
                return reply
            # Somebody saw the server restart before we did: begin again, with the same event id.
            self._incarnations.forget(shard)
        raise StreamUnavailable(f"shard {shard} of the log changes its incarnation faster than events can be appended")

    def _append_call(self, event: StreamEvent, *, shard: int, deliver_at: datetime | None, recheck: bool) -> _Call:
        marker, window, priority = marker_of(event), self._window_of(event), EVENT_STREAMS.index(event.priority)
        seen = window.keys(self._keys, shard=shard, marker=marker, now_ms=self._clock.now_ms())
        return _Call(
            keys=[*self._places[shard][priority], *seen],
            args=[
                priority + 1,
                marker,
                digest_of(event),
                uuid_bytes(event.id),
                f"{event.tenant_id}:{event.source}",
                window.ttl_s,
                int(recheck),
                0 if deliver_at is None else to_epoch_ms(deliver_at),
                *values_of(event),
                *further_fields(event),
            ],
        )

    def _parts_call(self, events: Sequence[StreamEvent], *, shard: int, recheck: bool) -> _Call:
        first, window, priority = events[0], self._window_of(events[0]), EVENT_STREAMS.index(events[0].priority)
        seen = window.keys(self._keys, shard=shard, marker=marker_of(first), now_ms=self._clock.now_ms())
        args: list[str | bytes | int] = [
            priority + 1,
            f"{first.tenant_id}:{first.source}",
            window.ttl_s,
            int(recheck),
        ]
        for event in events:
            marker, encoded = marker_of(event), encode(event)
            args += [bucket_of(marker), marker, digest_of(event), uuid_bytes(event.id), len(encoded), *encoded]
        return _Call(keys=[*self._places[shard][priority], *seen], args=args)

    def _window_of(self, event: StreamEvent) -> SeenWindow:
        return self._windows.get((event.tenant_id, event.source), self._window)

    async def alias(self, event: StreamEvent, *, first_id: str) -> None:
        """Records that an event whose id was given to its sender is an earlier one's duplicate; repeating is harmless."""
        shard = self._keys.shard_of(event)
        at = [self._keys.ledger(shard), self._keys.outcomes(shard)]
        await self._pipeline.run("alias", keys=at, args=[event.id, first_id, event.tenant_id, event.source], is_confirmed=True)

    def shard_of(self, event: StreamEvent) -> int:
        return self._keys.shard_of(event)

    def fate_of(self, shard: int) -> Iterable[int]:
        """The shards that are lost with this one: on one server all of them, on a cluster perhaps only itself."""
        return self._keys.all_shards() if self._pipeline.one_keyspace else (shard,)

    @property
    def generation(self) -> int:
        """Which connection is in use: another one may lead to another server."""
        return self._pipeline.newest_generation

    async def is_ready(self) -> bool:
        """True when the log answers within its time."""
        try:
            return bool(await self._pipeline.call("PING") == b"PONG")
        except StreamUnavailable:
            return False

    async def mind_hard_cap(self, log: LogSettings) -> bool:
        """Has appends refused while the log is above its hard cap; true when they are. To be called about once a second."""
        return await mind_hard_cap(self._pipeline, keys=self._keys, log=log)

    async def close(self) -> None:
        await self._pipeline.close()


@dataclass(frozen=True, slots=True)
class _Call:
    keys: list[str]
    args: list[str | bytes | int]


def _receipt(reply: list[Any], *, shard: int) -> Receipt:
    status, event_id, stream, incarnation, entry_id, number, conflict = reply
    is_duplicate, is_scheduled = status == b"duplicate", entry_id == b""
    place = stream.decode(), incarnation.decode(), entry_id.decode(), number
    # In the order of its fields: by their names it would cost twice as much.
    return Receipt(uuid_text(event_id), is_duplicate, conflict == 1, *place, is_scheduled, shard)


class Incarnations:
    """Which incarnation each shard is in, asked anew on every new connection.

    A new connection may lead to a restarted server or to another one, which may lack entries that the old one had;
    numbers given under the old incarnation would then be given twice.
    """

    def __init__(self, pipeline: Pipeline, *, keys: Keys) -> None:
        self._pipeline = pipeline
        self._keys = keys
        self._known: dict[int, tuple[str, int]] = {}

    def known(self, shard: int) -> tuple[str, int] | None:
        """What `of` would answer, where it need not ask: nearly always, on one server. None says nothing."""
        known = self._known.get(shard)
        return known if known is not None and known[1] == self._pipeline.open_generation else None

    async def of(self, shard: int) -> tuple[str, int]:
        """The incarnation, and the generation of the connection that it was learnt on."""
        generation = await self._pipeline.connect(self._keys.ledger(shard))
        known = self._known.get(shard)
        if known is not None and known[1] == generation:
            return known
        if shard != 0:
            # It exists in every log and so knows the number of shards; one that the log lacks would begin without a word.
            await self.of(0)
            generation = await self._pipeline.connect(self._keys.ledger(shard))
        return await self._begin(shard, generation=generation)

    async def _begin(self, shard: int, *, generation: int) -> tuple[str, int]:
        at = [self._keys.ledger(shard), self._keys.registry(shard)]
        reply = await self._pipeline.run("begin", keys=at, args=[new_incarnation(), self._keys.shards], generation=generation)
        self._known[shard] = begun(reply, keys=self._keys), generation
        return self._known[shard]

    def forget(self, shard: int) -> None:
        self._known.pop(shard, None)


def new_incarnation() -> str:
    return os.urandom(4).hex()


def begun(reply: list[bytes], *, keys: Keys) -> str:
    """The incarnation that `begin` answered; raises ConfigError when the log has another number of shards."""
    status, value = reply
    if status == b"shards":
        raise ConfigError(why_other_shards(value, wanted=keys.shards))
    return value.decode()
