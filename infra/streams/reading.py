"""Owns reading the log as one consumer of a group: a lease for each entry that is handed to it, one budget over all its streams."""

from __future__ import annotations

import asyncio
import functools
import itertools
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import NamedTuple

from infra.streams.budget import WEIGHTS, allot
from infra.streams.entries import EVENT_FIELDS, Fields, as_fields
from infra.streams.keys import Keys
from infra.streams.pipelining import Pipeline
from infra.streams.scripts import Argument
from schemas.errors import StreamUnavailable

SHORT_BLOCK_MS = 20
Entry = tuple[bytes, Sequence[bytes]]
"""An entry's id and its fields as the server sends them."""
RETRY = "retry"
REPLAY = "replay"
ANSWERS = ("NOGROUP", "WRONGTYPE")
BODY_AT = 2 * EVENT_FIELDS.index("payload") + 1


class Lease(NamedTuple):
    """One entry handed to one consumer; `delivery_count` tells this handing from a later one of the same entry."""

    shard: int
    stream: str
    """The stream's key."""
    entry_id: str
    delivery_count: int
    flat: Sequence[bytes]
    """Field, value, field, value, ... as the server sends them."""

    @property
    def fields(self) -> Fields:
        """By their names; worked out at every call, so nothing that is done for every delivery should ask."""
        return as_fields(self.flat)

    @property
    def tenant(self) -> bytes:
        flat = self.flat
        if len(flat) > 5 and flat[4] == b"tenant_id":  # where `encode` puts it
            return flat[5]
        return self.fields.get(b"tenant_id", b"")

    @property
    def body_bytes(self) -> int:
        """About: what stands where `encode` puts the body."""
        return len(self.flat[BODY_AT]) if len(self.flat) > BODY_AT else 0


# A quarter of what its constructor costs, and made for every delivery.
_lease: Callable[[tuple[int, str, str, int, Sequence[bytes]]], Lease] = functools.partial(tuple.__new__, Lease)


class GroupReader:
    """The log as one consumer of a group sees it: the event streams, and the group's own retry and replay streams."""

    def __init__(self, pipeline: Pipeline, *, keys: Keys, group: str, consumer: str, classes: Collection[str] = tuple(WEIGHTS)) -> None:
        """It reads new entries of these classes only; of all others it knows where they are."""
        self._pipeline = pipeline
        self._classes = classes
        self._turn = 0
        self._hungry: set[str] = set()
        self.group = group
        self.consumer = consumer
        self._streams = {kind: streams_of(kind, keys=keys, group=group) for kind in WEIGHTS}
        self._shard_of_stream = {stream: shard for shard in keys.all_shards() for stream in group_streams(keys, shard=shard, group=group)}
        self._kind_of_stream = {stream: kind for kind, streams in self._streams.items() for stream in streams}
        self.read_shards: frozenset[int] = frozenset(keys.all_shards())
        self._shards = keys.shards
        self._doubtful: set[int] = set()
        self.unheard: set[int] = set()
        """Shards of a cluster that gave no answer: they are not read before somebody has looked for what they may have handed out.

        Nothing that was asked of them is under way: whoever looks finds no delivery whose reply is still to come.
        """

    def read_only(self, shards: Iterable[int]) -> None:
        """From now on new entries of these shards only."""
        self.read_shards = frozenset(shards)

    def doubt(self, shard: int) -> None:
        """Its answer did not come; it is unheard when no read is under way any more."""
        self._doubtful.add(shard)

    @property
    def hears_nobody(self) -> bool:
        return len(self.unheard) == self._shards

    @property
    def streams(self) -> Sequence[str]:
        return list(self._shard_of_stream)

    @property
    def own_streams(self) -> Sequence[str]:
        """Those of the classes that this one reads."""
        return [stream for stream in self._shard_of_stream if self._kind_of_stream[stream] in self._classes]

    def shard_of(self, stream: str) -> int:
        return self._shard_of_stream[stream]

    def kind_of(self, stream: str) -> str:
        """`urgent`, `default`, `low`, `overflow`, `retry` or `replay`."""
        return self._kind_of_stream[stream]

    async def read(self, *, budget: int, block_ms: int) -> list[Lease]:
        """At most `budget` new entries, shared among the streams as `budget.py` says; waits up to `block_ms` for the first.

        Raises StreamUnavailable, but for a cluster: there the shards of living nodes are read, and the others become `unheard`.
        """
        found = await self._take_what_is_there(budget) if self._must_share(budget) else []
        found = found or await self._wait_for_something(budget, block_ms=block_ms)
        self._own_up()
        return found

    async def wait(self, *, budget: int, block_ms: int) -> list[Lease]:
        """The same where it does not matter which stream has it: at most `budget` entries, by one command that waits for the first."""
        self._turn += 1
        found = await self._wait_for_something(budget, block_ms=block_ms)
        self._own_up()
        return found

    async def read_urgent(self, *, budget: int) -> list[Lease]:
        """At most `budget` urgent entries that are there now."""
        streams = self._some("urgent", most=budget)
        found = await self._read(streams, count=max(1, budget // len(streams))) if streams else []
        self._own_up()
        return found

    def _must_share(self, budget: int) -> bool:
        """Whether classes have to be asked apart, each for its share. As long as none has more than was asked for, one command for
        all of them does: a worker that keeps up with a steady flow would spend most of its time, and of the server's, on asking."""
        if not self.read_shards - self.unheard:
            return False
        return bool(self._hungry) or not self._pipeline.one_keyspace or budget < len(self.own_streams)

    def _own_up(self) -> None:
        self.unheard |= self._doubtful
        self._doubtful.clear()

    async def _take_what_is_there(self, budget: int) -> list[Lease]:
        self._turn += 1
        counts = allot(budget, hungry=self._hungry, streams_per_class=len(self.read_shards), turn=self._turn, classes=self._classes)
        taken = await self._read_each([(self._some(kind, most=budget), count) for kind, count in counts.items()])
        for (kind, count), leases in zip(counts.items(), taken, strict=True):
            (self._hungry.add if self._filled(leases, count=count) else self._hungry.discard)(kind)
        return [lease for leases in taken for lease in leases]

    def _filled(self, leases: Sequence[Lease], *, count: int) -> set[str]:
        """The classes of streams that gave as many entries as they were asked for: there may be more."""
        return {self._kind_of_stream[stream] for stream, amount in Counter(lease.stream for lease in leases).items() if amount >= count}

    def _some(self, kind: str, *, most: int) -> list[str]:
        """The streams of a class; when there is room for fewer entries than streams, others each time."""
        streams = self._readable(self._streams[kind])
        if most >= len(streams):
            return streams
        start = self._turn % len(streams)
        return [*streams, *streams][start : start + most]

    def _readable(self, streams: Iterable[str]) -> list[str]:
        shards = self.read_shards - self.unheard - self._doubtful
        return [stream for stream in streams if self._shard_of_stream[stream] in shards]

    async def _wait_for_something(self, budget: int, *, block_ms: int) -> list[Lease]:
        streams = self._readable(self.own_streams)
        if not streams:
            await asyncio.sleep(min(block_ms, SHORT_BLOCK_MS) / 1000)
            return []
        count = budget // len(streams)
        if count == 0:
            start = self._turn * budget % len(streams)
            streams, count = [*streams, *streams][start : start + budget], 1
            block_ms = min(block_ms, SHORT_BLOCK_MS)
        found = await self._read_blocking(streams, count=count, block_ms=block_ms)
        self._hungry |= self._filled(found, count=count)
        return found

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

    async def _read_each(self, reads: Sequence[tuple[Sequence[str], int]]) -> list[list[Lease]]:
        """Several reads, sent together: one way to the server and back, one fsync."""
        if not self._pipeline.one_keyspace:
            return list(await asyncio.gather(*(self._read(streams, count=count) for streams, count in reads)))
        replies = await self._pipeline.call_together(*(self._command(streams, count=count) for streams, count in reads))
        return [self._leases(reply) for reply in replies]

    async def _read(self, streams: Sequence[str], *, count: int) -> list[Lease]:
        if self._pipeline.one_keyspace:
            return await self._read_together(streams, count=count)
        in_shards = itertools.groupby(sorted(streams, key=self.shard_of), key=self.shard_of)
        reads = [self._read_shard(shard, list(of_shard), count=count) for shard, of_shard in in_shards]
        return [lease for leases in await asyncio.gather(*reads) for lease in leases]

    async def _read_shard(self, shard: int, streams: Sequence[str], *, count: int) -> list[Lease]:
        try:
            return await self._read_together(streams, count=count)
        except StreamUnavailable as error:
            if is_answer(error):
                raise
            self.doubt(shard)
            return []

    async def _read_together(self, streams: Sequence[str], *, count: int, waiting: Sequence[Argument] = ()) -> list[Lease]:
        """By one command."""
        return self._leases(await self._pipeline.call(*self._command(streams, count=count, waiting=waiting)))

    def _command(self, streams: Sequence[str], *, count: int, waiting: Sequence[Argument] = ()) -> list[Argument]:
        newest = [">"] * len(streams)
        return ["XREADGROUP", "GROUP", self.group, self.consumer, "COUNT", count, *waiting, "STREAMS", *streams, *newest]

    def _leases(self, reply: Sequence[tuple[bytes, Sequence[Entry]]] | None) -> list[Lease]:
        return [lease for name, entries in reply or () for lease in self._leases_of(name.decode(), entries)]

    def _leases_of(self, stream: str, entries: Sequence[Entry]) -> list[Lease]:
        shard = self._shard_of_stream[stream]
        return [_lease((shard, stream, entry_id.decode(), 1, flat)) for entry_id, flat in entries]


def is_answer(error: StreamUnavailable) -> bool:
    """The node lives, and says what is wrong: the group has to be declared again, or a person has to look at a key."""
    return any(word in str(error) for word in ANSWERS)


def streams_of(kind: str, *, keys: Keys, group: str) -> list[str]:
    """The streams of one class over all shards."""
    own = {RETRY: keys.retry, REPLAY: keys.replay}.get(kind)
    return [own(shard, group) if own else keys.events(shard, kind) for shard in keys.all_shards()]


def group_streams(keys: Keys, *, shard: int, group: str) -> list[str]:
    """All that a group reads in a shard: the event streams, and then its own, for retries and for what is replayed."""
    return [*keys.event_streams(shard), keys.retry(shard, group), keys.replay(shard, group)]
