"""Owns appending events to the log and reading them as a group: the middle of an event's life.

An append returns when the entry is synced: the server runs with `appendfsync always`, so its reply leaves after the
fsync. Raises StreamUnavailable when the log cannot say so; the event may then be on the log or not, and appending the
same event again is harmless, since its delivery id is remembered in the same script that adds the entry.
"""

from __future__ import annotations

import asyncio
import itertools
import os
import uuid
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple

from infra.clock import Clock
from infra.settings import LogSettings
from infra.streams.budget import WEIGHTS, allot
from infra.streams.connection import open_pipeline
from infra.streams.entries import Fields, encode
from infra.streams.keys import EVENT_STREAMS, Keys, why_other_shards
from infra.streams.pipelining import Pipeline
from infra.streams.seen import SeenWindow, marker_of
from schemas.errors import ConfigError, StreamUnavailable
from schemas.event import StreamEvent, to_epoch_ms
from schemas.receipt import Receipt

SHORT_BLOCK_MS = 20
RETRY = "retry"


class EventStream:
    """The log as a receiver sees it."""

    def __init__(self, pipeline: Pipeline, *, keys: Keys, window: SeenWindow, clock: Clock) -> None:
        self._pipeline = pipeline
        self._keys = keys
        self._window = window
        self._clock = clock
        self._incarnations = Incarnations(pipeline, keys=keys)

    @classmethod
    def open(cls, log: LogSettings, *, home: Path, clock: Clock | None = None) -> EventStream:
        """Opens no connection yet: a receiver starts while its log is down."""
        keys = Keys(log.prefix, log.shards)
        return cls(open_pipeline(log, home=home), keys=keys, window=SeenWindow.parse(log.window), clock=clock or Clock())

    async def append(self, event: StreamEvent, *, deliver_at: datetime | None = None) -> Receipt:
        """Puts the event on its stream unless it is there already; raises StreamUnavailable.

        With a `deliver_at` that the server's clock has not reached, the event is stored and waits; no group sees it before then.
        """
        shard = self._keys.shard_of(event)
        call = self._append_call(event, shard=shard, deliver_at=deliver_at)
        for _ in range(3):
            incarnation, generation = await self._incarnations.of(shard)
            reply = await self._pipeline.run("append", keys=call.keys, args=[incarnation, *call.args], generation=generation)
            if reply[0] != b"incarnation":
                return _receipt(reply)
            # Somebody saw the server restart before we did: begin again, with the same event id.
            self._incarnations.forget(shard)
        raise StreamUnavailable(f"shard {shard} of the log changes its incarnation faster than events can be appended")

    def _append_call(self, event: StreamEvent, *, shard: int, deliver_at: datetime | None) -> _Call:
        marker = marker_of(event)
        seen = self._window.keys(self._keys, shard=shard, marker=marker, now_ms=self._clock.now_ms())
        return _Call(
            keys=[*self._keys.event_streams(shard), self._keys.ledger(shard), *seen],
            args=[
                EVENT_STREAMS.index(event.priority.value) + 1,
                marker,
                bytes.fromhex(event.body_sha256)[:8],
                uuid.UUID(event.id).bytes,
                f"{event.tenant_id}:{event.source}",
                self._window.ttl_s,
                0,
                self._keys.delayed(shard),
                0 if deliver_at is None else to_epoch_ms(deliver_at),
                *encode(event),
            ],
        )

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

    async def close(self) -> None:
        await self._pipeline.close()


@dataclass(frozen=True, slots=True)
class _Call:
    keys: list[str]
    args: list[str | bytes | int]


def _receipt(reply: list[Any]) -> Receipt:
    status, event_id, stream, incarnation, entry_id, number, conflict = reply
    return Receipt(
        event_id=str(uuid.UUID(bytes=event_id)),
        duplicate=status == b"duplicate",
        scheduled=entry_id == b"",
        conflict=conflict == 1,
        stream=stream.decode(),
        incarnation=incarnation.decode(),
        entry_id=entry_id.decode(),
        sequence=number,
    )


class Incarnations:
    """Which incarnation each shard is in, asked anew on every new connection.

    A new connection may lead to a restarted server or to another one, which may lack entries that the old one had;
    numbers given under the old incarnation would then be given twice.
    """

    def __init__(self, pipeline: Pipeline, *, keys: Keys) -> None:
        self._pipeline = pipeline
        self._keys = keys
        self._known: dict[int, tuple[str, int]] = {}

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


class Lease(NamedTuple):
    """One entry handed to one consumer; `delivery_count` tells this handing from a later one of the same entry."""

    shard: int
    stream: str
    """The stream's key."""
    entry_id: str
    delivery_count: int
    fields: Fields


class GroupReader:
    """The log as one consumer of a group sees it: the event streams and the group's own retry streams."""

    def __init__(self, pipeline: Pipeline, *, keys: Keys, group: str, consumer: str) -> None:
        self._pipeline = pipeline
        self._turn = 0
        self._hungry: set[str] = set()
        self.group = group
        self.consumer = consumer
        self._streams = {kind: streams_of(kind, keys=keys, group=group) for kind in WEIGHTS}
        self._shard_of_stream = {stream: shard for shard in keys.all_shards() for stream in group_streams(keys, shard=shard, group=group)}
        self._kind_of_stream = {stream: kind for kind, streams in self._streams.items() for stream in streams}
        self.read_shards: frozenset[int] = frozenset(keys.all_shards())

    def read_only(self, shards: Iterable[int]) -> None:
        """From now on new entries of these shards only."""
        self.read_shards = frozenset(shards)

    @property
    def streams(self) -> Sequence[str]:
        return list(self._shard_of_stream)

    def shard_of(self, stream: str) -> int:
        return self._shard_of_stream[stream]

    def kind_of(self, stream: str) -> str:
        """`urgent`, `default`, `low`, `overflow` or `retry`."""
        return self._kind_of_stream[stream]

    async def read(self, *, budget: int, block_ms: int) -> list[Lease]:
        """At most `budget` new entries, shared among the streams as `budget.py` says; waits up to `block_ms` for the first."""
        if not self.read_shards:
            await asyncio.sleep(min(block_ms, SHORT_BLOCK_MS) / 1000)
            return []
        found = await self._take_what_is_there(budget)
        return found or await self._wait_for_something(budget, block_ms=block_ms)

    async def read_urgent(self, *, budget: int) -> list[Lease]:
        """At most `budget` urgent entries that are there now."""
        streams = self._some("urgent", most=budget)
        return await self._read(streams, count=max(1, budget // len(streams))) if streams else []

    async def _take_what_is_there(self, budget: int) -> list[Lease]:
        self._turn += 1
        counts = allot(budget, hungry=self._hungry, streams_per_class=len(self.read_shards), turn=self._turn)
        # Sent together: one way to the server and back, one fsync.
        taken = await asyncio.gather(*(self._read(self._some(kind, most=budget), count=count) for kind, count in counts.items()))
        for (kind, count), leases in zip(counts.items(), taken, strict=True):
            # Filled on one of its streams: there may be more.
            is_filled = any(amount >= count for amount in Counter(lease.stream for lease in leases).values())
            (self._hungry.add if is_filled else self._hungry.discard)(kind)
        return [lease for leases in taken for lease in leases]

    def _some(self, kind: str, *, most: int) -> list[str]:
        """The streams of a class; when there is room for fewer entries than streams, others each time."""
        streams = self._readable(self._streams[kind])
        if most >= len(streams):
            return streams
        start = self._turn % len(streams)
        return [*streams, *streams][start : start + most]

    def _readable(self, streams: Iterable[str]) -> list[str]:
        return [stream for stream in streams if self._shard_of_stream[stream] in self.read_shards]

    async def _wait_for_something(self, budget: int, *, block_ms: int) -> list[Lease]:
        streams = self._readable(self.streams)
        count = budget // len(streams)
        if count == 0:
            start = self._turn * budget % len(streams)
            streams, count = [*streams, *streams][start : start + budget], 1
            block_ms = min(block_ms, SHORT_BLOCK_MS)
        return await self._read_blocking(streams, count=count, block_ms=block_ms)

    async def _read_blocking(self, streams: Sequence[str], *, count: int, block_ms: int) -> list[Lease]:
        if self._pipeline.one_keyspace:
            return await self._read_together(streams, count=count, waiting=["BLOCK", block_ms])
        # A read that blocks holds up all others on its connection, and no command may wait for several slots: look again and again.
        loop = asyncio.get_running_loop()
        until = loop.time() + block_ms / 1000
        while True:
            found = await self._read(streams, count=count)
            if found or loop.time() >= until:
                return found
            await asyncio.sleep(min(block_ms, SHORT_BLOCK_MS) / 1000)

    async def _read(self, streams: Sequence[str], *, count: int) -> list[Lease]:
        if self._pipeline.one_keyspace:
            return await self._read_together(streams, count=count)
        in_shards = itertools.groupby(sorted(streams, key=self.shard_of), key=self.shard_of)
        reads = [self._read_together(list(of_shard), count=count) for _, of_shard in in_shards]
        return [lease for leases in await asyncio.gather(*reads) for lease in leases]

    async def _read_together(self, streams: Sequence[str], *, count: int, waiting: Sequence[str | int] = ()) -> list[Lease]:
        """By one command."""
        reply = await self._pipeline.call(
            "XREADGROUP", "GROUP", self.group, self.consumer, "COUNT", count, *waiting, "STREAMS", *streams, *[">"] * len(streams)
        )
        return [
            Lease(self._shard_of_stream[name.decode()], name.decode(), entry_id.decode(), 1, as_fields(fields))
            for name, entries in reply or []
            for entry_id, fields in entries
        ]


def streams_of(kind: str, *, keys: Keys, group: str) -> list[str]:
    """The streams of one class over all shards."""
    return [keys.retry(shard, group) if kind == RETRY else keys.events(shard, kind) for shard in keys.all_shards()]


def group_streams(keys: Keys, *, shard: int, group: str) -> list[str]:
    return [*keys.event_streams(shard), keys.retry(shard, group)]


def as_fields(flat: Sequence[bytes]) -> Fields:
    """Field, value, field, value, ... as the server sends them."""
    return dict(zip(flat[::2], flat[1::2], strict=True))
