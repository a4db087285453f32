"""Owns the two caps of the log's memory: how full its server is, where the caps lie, and refusing appends above the hard one.

Measured is what the server itself compares with its `maxmemory`, other programs' keys on it included: that is what runs out.
Whoever appends weighs the log about once a second, and so does the janitor; an append finds the verdict in the ledger, which it
reads anyway. The verdict lapses by itself, so that nobody is refused by the note of a process that is gone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from infra.settings import LogSettings
from infra.streams.keys import Keys
from infra.streams.pipelining import Pipeline

REFUSED_FOR_MS = 10_000
UNITS = {"KiB": 1024, "MiB": 1024**2, "GiB": 1024**3}


@dataclass(frozen=True, slots=True)
class Weight:
    """The memory of one server at one moment; a cap is None where it is a share of something that the server does not tell."""

    used_bytes: int
    limit_bytes: int
    """The server's `maxmemory`; half of its machine's memory if it has none."""
    has_maxmemory: bool
    soft_bytes: int | None
    hard_bytes: int | None
    now_ms: int = 0
    refused_until_ms: int = 0
    streams: tuple[int, ...] = ()
    """About the bytes of each stream that was weighed."""

    @property
    def is_heavy(self) -> bool:
        """Above the soft cap: groups that lag must not keep the log from being trimmed any longer."""
        return self.soft_bytes is not None and self.used_bytes > self.soft_bytes

    @property
    def is_full(self) -> bool:
        """Above the hard cap: nothing more is accepted."""
        return self.hard_bytes is not None and self.used_bytes > self.hard_bytes

    @property
    def refuses(self) -> bool:
        return self.refused_until_ms > self.now_ms


def weight_of(reply: Sequence[int], *, log: LogSettings) -> Weight:
    """What `weigh` answered, set against the caps. Pure."""
    now_ms, used, maxmemory, machine, refused_until_ms, *streams = reply
    limit = maxmemory or machine // 2
    hard = cap_bytes(log.hard_cap, limit_bytes=limit)
    soft = cap_bytes(log.soft_cap, limit_bytes=limit)
    # Where one is a share and the other is not, the soft one may come out above the hard one.
    soft = soft if soft is None or hard is None else min(soft, hard)
    return Weight(used, limit, maxmemory > 0, soft, hard, now_ms, refused_until_ms, tuple(streams))


def cap_bytes(cap: str, *, limit_bytes: int) -> int | None:
    """`80%` of the limit, or `2GiB`; None for a share of an unknown limit. Pure."""
    if cap.endswith("%"):
        return limit_bytes * int(cap[:-1]) // 100 if limit_bytes else None
    return int(cap[:-3]) * UNITS[cap[-3:]]


async def weigh(pipeline: Pipeline, *, keys: Keys, shard: int, log: LogSettings, streams: Sequence[str] = ()) -> Weight:
    """The server that has this shard, and these streams of it."""
    return weight_of(await pipeline.run("weigh", keys=[keys.ledger(shard), *streams], args=[]), log=log)


async def mind_hard_cap(pipeline: Pipeline, *, keys: Keys, log: LogSettings) -> bool:
    """Has appends refused while the log is above its hard cap, and accepted again below it; true when any are refused."""
    if pipeline.one_keyspace and not _is_due(await weigh(pipeline, keys=keys, shard=0, log=log)):
        return False
    refused = [await _mind(pipeline, keys=keys, shard=shard, log=log) for shard in keys.all_shards()]
    return any(refused)


async def _mind(pipeline: Pipeline, *, keys: Keys, shard: int, log: LogSettings) -> bool:
    weight = await weigh(pipeline, keys=keys, shard=shard, log=log)
    if weight.is_full and weight.refused_until_ms < weight.now_ms + REFUSED_FOR_MS // 2:
        await pipeline.run("note", keys=[keys.ledger(shard)], args=["full", weight.now_ms + REFUSED_FOR_MS])
    elif weight.refused_until_ms and not weight.is_full:
        await pipeline.call("HDEL", keys.ledger(shard), "full")
    return weight.is_full


def _is_due(weight: Weight) -> bool:
    """Whether there is anything to say: the one server has not been full, and is not now."""
    return weight.is_full or weight.refused_until_ms > 0


async def weigh_all(pipeline: Pipeline, *, keys: Keys, log: LogSettings) -> Weight:
    """The fullest server of the log."""
    shards = [0] if pipeline.one_keyspace else keys.all_shards()
    weights = [await weigh(pipeline, keys=keys, shard=shard, log=log) for shard in shards]
    return max(weights, key=lambda weight: weight.used_bytes / max(1, weight.limit_bytes))


def described(weight: Weight) -> str:
    """One line for operators: `1.2 GiB of 8.0 GiB (maxmemory); soft cap 4.8 GiB, hard cap 6.4 GiB`. Pure."""
    whose = "maxmemory" if weight.has_maxmemory else "half of the machine, as the server has no maxmemory"
    limit = f"of {_shown(weight.limit_bytes)} ({whose})" if weight.limit_bytes else "of an unknown amount"
    return f"{_shown(weight.used_bytes)} {limit}; soft cap {_shown(weight.soft_bytes)}, hard cap {_shown(weight.hard_bytes)}"


def _shown(size: int | None) -> str:
    if size is None:
        return "unknown"
    unit = next((name for name in ("GiB", "MiB") if size >= UNITS[name]), "KiB")
    return f"{size / UNITS[unit]:.1f} {unit}"
