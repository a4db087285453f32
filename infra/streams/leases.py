"""Owns taking over and renewing leases on the log: the acting half of `processors/leases.py`."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

from infra.streams.keys import Keys
from infra.streams.pipelining import Pipeline
from infra.streams.stream import GroupReader, Lease, as_fields


async def claim_own(pipeline: Pipeline, *, keys: Keys, reader: GroupReader) -> Lease | None:
    """One delivery that this consumer's name still holds from an earlier life, or None. Only with nothing in hand."""
    return await _claim(pipeline, keys=keys, reader=reader, least_idle_ms=0, whose=reader.consumer)


async def claim_idle(pipeline: Pipeline, *, keys: Keys, reader: GroupReader, lease_ms: int) -> Lease | None:
    """One delivery that nobody has renewed for a whole lease, or None."""
    return await _claim(pipeline, keys=keys, reader=reader, least_idle_ms=lease_ms, whose="")


async def _claim(pipeline: Pipeline, *, keys: Keys, reader: GroupReader, least_idle_ms: int, whose: str) -> Lease | None:
    for stream in reader.streams:
        args: list[str | bytes | int] = [reader.group, reader.consumer, least_idle_ms, whose]
        reply = await pipeline.run("claim", keys=[stream, keys.ledger(reader.shard_of(stream))], args=args)
        if len(reply) == 3:
            entry_id, count, fields = reply
            return Lease(reader.shard_of(stream), stream, entry_id.decode(), count, as_fields(fields))
    return None


async def renew(pipeline: Pipeline, *, reader: GroupReader, leases: Sequence[Lease]) -> list[Lease]:
    """Renews what this consumer still owns; returns the leases that were lost."""
    lost: list[Lease] = []
    in_streams = sorted(leases, key=lambda lease: lease.stream)
    for stream, of_stream in itertools.groupby(in_streams, key=lambda lease: lease.stream):
        chosen = list(of_stream)
        pairs: list[str | bytes | int] = [part for lease in chosen for part in (lease.entry_id, lease.delivery_count)]
        results = await pipeline.run("renew", keys=[stream], args=[reader.group, reader.consumer, *pairs])
        lost += [lease for lease, renewed in zip(chosen, results, strict=True) if not renewed]
    return lost
