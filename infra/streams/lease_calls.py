"""Owns calling a script about leases: one call per stream, by either client, and which leases the replies say were lost."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import redis
from redis.cluster import RedisCluster

from infra.streams.connection import translated
from infra.streams.pipelining import Pipeline
from infra.streams.reading import Lease
from infra.streams.scripts import Argument, run_blocking
from schemas.errors import StreamUnavailable


@dataclass(frozen=True, slots=True)
class LeaseCall:
    """One call of a script about leases of one stream, which answers with the places (the first is 1) of those that were lost."""

    script: str
    leases: list[Lease]
    keys: list[str]
    args: list[Argument]

    def lost(self, reply: Sequence[int]) -> list[Lease]:
        return [self.leases[place - 1] for place in reply]


async def lost_by(pipeline: Pipeline, *, calls: Sequence[LeaseCall]) -> list[Lease]:
    """Makes the calls; returns the leases that somebody else owns. Raises StreamUnavailable."""
    lost: list[Lease] = []
    for call in calls:
        lost += call.lost(await pipeline.run(call.script, keys=call.keys, args=call.args))
    return lost


def lost_by_blocking(client: redis.Redis, *, calls: Sequence[LeaseCall]) -> list[Lease]:
    """The same for the lease thread; a node of a cluster that is down does not keep it from calling the others."""
    lost: list[Lease] = []
    failures: dict[int, StreamUnavailable] = {}
    for call in calls:
        if (shard := call.leases[0].shard) in failures:
            continue
        try:
            with translated():
                lost += call.lost(run_blocking(client, call.script, keys=call.keys, args=call.args))
        except StreamUnavailable as error:
            if not isinstance(client, RedisCluster):
                raise
            failures[shard] = error
    for failure in failures.values():
        raise failure
    return lost
