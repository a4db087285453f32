"""Owns taking over and renewing leases on the log: the acting half of `processors/leases.py`."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

import redis

from infra.settings import LogSettings
from infra.streams.connection import open_blocking
from infra.streams.keys import Keys
from infra.streams.lease_calls import LeaseCall, lost_by, lost_by_blocking
from infra.streams.pipelining import Pipeline
from infra.streams.positions import id_order
from infra.streams.reading import GroupReader, Lease, is_answer
from infra.streams.scripts import Argument
from infra.streams.settle import Decision, settle_calls
from schemas.errors import StreamUnavailable

Place = tuple[str, str]
"""A stream's key and an entry id."""


async def held_places(
    pipeline: Pipeline, *, reader: GroupReader, shard: int | None = None, streams: Sequence[str] | None = None
) -> list[Place]:
    """Where this consumer's name holds deliveries, in all shards or in one, in all streams or in these, whichever of its lives took
    them; those delivered least often come first.

    What killed a life was delivered when it ended, and again when the next one ended: its innocent neighbours need not wait for it.
    """
    found: list[tuple[int, Place]] = []
    chosen = reader.streams if streams is None else streams
    for stream in (stream for stream in chosen if shard in (None, reader.shard_of(stream))):
        pending = await pipeline.call("XPENDING", stream, reader.group, "-", "+", 10_000, reader.consumer)
        found += [(count, (stream, entry_id.decode())) for entry_id, _, _, count in pending]
    return [place for _, place in sorted(found, key=lambda one: one[0])]


async def take_again(pipeline: Pipeline, *, keys: Keys, reader: GroupReader, place: Place) -> Lease | None:
    """A delivery that an earlier life of this consumer was handed: counted, since it may be what ended that life."""
    return await _claim(pipeline, keys=keys, reader=reader, stream=place[0], entry_id=place[1], how="counted")


async def take_unheard(pipeline: Pipeline, *, keys: Keys, reader: GroupReader, place: Place) -> Lease | None:
    """A delivery whose reply never arrived in this life: not counted again, since nobody has run it."""
    return await _claim(pipeline, keys=keys, reader=reader, stream=place[0], entry_id=place[1], how="uncounted")


async def pending_places(pipeline: Pipeline, *, reader: GroupReader, shard: int) -> list[Place]:
    """Where the group has anything pending in a shard, whoever holds it, in the order of entries."""
    found: list[Place] = []
    for stream in reader.streams:
        if reader.shard_of(stream) == shard:
            pending = await pipeline.call("XPENDING", stream, reader.group, "-", "+", 10_000)
            found += [(stream, entry_id.decode()) for entry_id, *_ in pending]
    return sorted(found, key=lambda place: id_order(place[1]))


async def adopt(pipeline: Pipeline, *, keys: Keys, reader: GroupReader, place: Place) -> Lease | None:
    """A delivery of a shard that this consumer holds now, whoever had it."""
    return await _claim(pipeline, keys=keys, reader=reader, stream=place[0], entry_id=place[1], how="adopted")


async def claim_idle(pipeline: Pipeline, *, keys: Keys, reader: GroupReader, lease_ms: int) -> Lease | None:
    """One delivery that nobody has renewed for a whole lease, or None; of a cluster's shards, of those that answer."""
    silent = set(reader.unheard)
    for stream in (stream for stream in reader.streams if reader.shard_of(stream) not in silent):
        try:
            claimed = await _claim(pipeline, keys=keys, reader=reader, stream=stream, least_idle_ms=lease_ms)
        except StreamUnavailable as error:
            if pipeline.one_keyspace or is_answer(error):
                raise
            silent.add(reader.shard_of(stream))
            reader.doubt(reader.shard_of(stream))
        else:
            if claimed is not None:
                return claimed
    return None


async def _claim(
    pipeline: Pipeline,
    *,
    keys: Keys,
    reader: GroupReader,
    stream: str,
    entry_id: str = "",
    least_idle_ms: int = 0,
    how: Literal["counted", "uncounted", "adopted"] = "counted",
) -> Lease | None:
    shard = reader.shard_of(stream)
    args: list[Argument] = [reader.group, reader.consumer, least_idle_ms, entry_id, how]
    reply = await pipeline.run("claim", keys=[stream, keys.ledger(shard)], args=args)
    if not reply:
        return None
    found_id, count, fields = reply
    return Lease(shard, stream, found_id.decode(), count, fields)


async def renew(pipeline: Pipeline, *, reader: GroupReader, leases: Sequence[Lease]) -> list[Lease]:
    """Renews what this consumer still owns; returns the leases that were lost."""
    return await lost_by(pipeline, calls=_renewals(leases, reader=reader))


class LeaseKeeper:
    """The log as the lease thread sees it: a blocking connection of its own, which works while the event loop does not.

    Raises StreamUnavailable, and connects anew after it: an embedded server that was started again has another address.
    """

    def __init__(self, log: LogSettings, *, home: Path, keys: Keys, reader: GroupReader) -> None:
        self._log = log
        self._home = home
        self._keys = keys
        self._reader = reader
        self._client: redis.Redis | None = None

    def renew(self, leases: Sequence[Lease]) -> list[Lease]:
        """Renews what this consumer still owns; returns the leases that were lost."""
        return self._lost_by(_renewals(leases, reader=self._reader))

    def settle(self, decisions: Sequence[Decision]) -> list[Lease]:
        """Carries out decisions as `settle` does; returns the leases that had been lost."""
        return self._lost_by(settle_calls(decisions, keys=self._keys, group=self._reader.group, consumer=self._reader.consumer))

    def _lost_by(self, calls: Sequence[LeaseCall]) -> list[Lease]:
        self._client = self._client or open_blocking(self._log, home=self._home)
        try:
            return lost_by_blocking(self._client, calls=calls)
        except StreamUnavailable:
            self.close()
            raise

    def close(self) -> None:
        if self._client is not None:
            self._client.close()
            self._client = None


def _renewals(leases: Sequence[Lease], *, reader: GroupReader) -> list[LeaseCall]:
    calls = []
    in_streams = sorted(leases, key=lambda lease: lease.stream)
    for stream, of_stream in itertools.groupby(in_streams, key=lambda lease: lease.stream):
        chosen = list(of_stream)
        pairs: list[Argument] = [part for lease in chosen for part in (lease.entry_id, lease.delivery_count)]
        calls.append(LeaseCall("renew", chosen, [stream], [reader.group, reader.consumer, *pairs]))
    return calls
