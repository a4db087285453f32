"""Owns taking over and renewing leases on the log: the acting half of `processors/leases.py`."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Literal

from infra.streams.keys import Keys
from infra.streams.pipelining import Pipeline
from infra.streams.scripts import Argument
from infra.streams.stream import GroupReader, Lease, as_fields

Place = tuple[str, str]
"""A stream's key and an entry id."""


async def held_places(pipeline: Pipeline, *, reader: GroupReader) -> list[Place]:
    """Where this consumer's name holds deliveries, whichever of its lives took them."""
    places: list[Place] = []
    for stream in reader.streams:
        pending = await pipeline.call("XPENDING", stream, reader.group, "-", "+", 10_000, reader.consumer)
        places += [(stream, entry_id.decode()) for entry_id, *_ in pending]
    return places


async def take_again(pipeline: Pipeline, *, keys: Keys, reader: GroupReader, place: Place) -> Lease | None:
    """A delivery that an earlier life of this consumer was handed: counted, since it may be what ended that life."""
    return await _claim(pipeline, keys=keys, reader=reader, stream=place[0], entry_id=place[1], how="counted")


async def take_unheard(pipeline: Pipeline, *, keys: Keys, reader: GroupReader, place: Place) -> Lease | None:
    """A delivery whose reply never arrived in this life: not counted again, since nobody has run it."""
    return await _claim(pipeline, keys=keys, reader=reader, stream=place[0], entry_id=place[1], how="uncounted")


async def claim_idle(pipeline: Pipeline, *, keys: Keys, reader: GroupReader, lease_ms: int) -> Lease | None:
    """One delivery that nobody has renewed for a whole lease, or None."""
    for stream in reader.streams:
        claimed = await _claim(pipeline, keys=keys, reader=reader, stream=stream, least_idle_ms=lease_ms)
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
    how: Literal["counted", "uncounted"] = "counted",
) -> Lease | None:
    shard = reader.shard_of(stream)
    args: list[Argument] = [reader.group, reader.consumer, least_idle_ms, entry_id, how]
    reply = await pipeline.run("claim", keys=[stream, keys.ledger(shard)], args=args)
    if not reply:
        return None
    found_id, count, fields = reply
    return Lease(shard, stream, found_id.decode(), count, as_fields(fields))


async def renew(pipeline: Pipeline, *, keys: Keys, reader: GroupReader, leases: Sequence[Lease]) -> list[Lease]:
    """Renews what this consumer still owns; returns the leases that were lost."""
    lost: list[Lease] = []
    in_streams = sorted(leases, key=lambda lease: lease.stream)
    for stream, of_stream in itertools.groupby(in_streams, key=lambda lease: lease.stream):
        chosen = list(of_stream)
        pairs: list[Argument] = [part for lease in chosen for part in (lease.entry_id, lease.delivery_count)]
        at = [stream, keys.ledger(chosen[0].shard)]
        results = await pipeline.run("renew", keys=at, args=[reader.group, reader.consumer, *pairs])
        lost += [lease for lease, renewed in zip(chosen, results, strict=True) if not renewed]
    return lost
