"""Owns making room on a log that is above its soft cap: what is archived is taken from groups that lag, and owed to them.

What a group is owed stands in `{n}:owed:<group>`, exactly: nothing is lost, since everything in it has a row in the archive, which
gives it back (`owed.py`).
"""

from __future__ import annotations

from dataclasses import dataclass

from infra.settings import LogSettings
from infra.streams import janitor
from infra.streams.caps import Weight, weigh
from infra.streams.keys import EVENT_STREAMS, Keys
from infra.streams.pipelining import Pipeline

AT_ONCE = 200
"""Pending entries of one call: the script reads each, with its body, to learn its number."""
ROUNDS = 1000
LEAST_SHARE = 100
"""A stream that takes less than a hundredth of the soft cap is left alone: its groups would lose their place for nothing."""


@dataclass(frozen=True, slots=True)
class Spilled:
    """What one round did to one stream."""

    stream: str
    """Shard and stream, `2:default`."""
    owed: int
    trimmed: int


async def make_room(pipeline: Pipeline, *, keys: Keys, log: LogSettings) -> list[Spilled]:
    """Spills the heaviest stream that it helps to spill, of each shard whose server is above the soft cap at that moment.

    Each shard is weighed when its turn comes, so that no more is taken than what brings the server below the cap.
    """
    done: list[Spilled] = []
    for shard in keys.all_shards():
        weight = await weigh(pipeline, keys=keys, shard=shard, log=log, streams=keys.event_streams(shard))
        for name in worth_spilling(weight):
            owed = await spill(pipeline, keys=keys, shard=shard, name=name)
            if owed:
                done.append(Spilled(f"{shard}:{name}", owed, await janitor.trim_stream(pipeline, keys=keys, shard=shard, name=name)))
                break
    return done


def worth_spilling(weight: Weight) -> list[str]:
    """The streams that may be spilled, the heaviest first; none below the soft cap. Pure."""
    if not weight.is_heavy:
        return []
    heaviest_first = sorted(zip(weight.streams, EVENT_STREAMS, strict=True), reverse=True)
    return [name for weighs, name in heaviest_first if weighs * LEAST_SHARE >= (weight.soft_bytes or 0)]


async def spill(pipeline: Pipeline, *, keys: Keys, shard: int, name: str) -> int:
    """Takes what is archived of one stream away from all groups that lag there; returns how many events became owed."""
    groups = await janitor.declared_groups(pipeline, keys=keys, shard=shard)
    at = [keys.events(shard, name), keys.ledger(shard), *(keys.owed(shard, group) for group in groups)]
    total, worst = 0, 0
    for _ in range(ROUNDS if groups else 0):
        owed, more, worst = await pipeline.run("spill", keys=at, args=[AT_ONCE, worst, *groups])
        total += owed
        if not more:
            break
    return total
