"""Owns tidying the log while nobody asks: trimming events, dead letters, refused requests and outcomes, removing consumers.

`housekeeping.py` says who does it, and when; each act is one script, so that several janitors do no harm.
"""

from __future__ import annotations

from collections.abc import Sequence

from infra.streams.keys import ARCHIVE_GROUP, EVENT_STREAMS, Keys
from infra.streams.pipelining import Pipeline
from infra.streams.reading import group_streams

# Names are stable over restarts of one machine, but a container may have another name each time.
SILENT_MS = 3_600_000

# Letters and requests carry whole bodies, which the script reads: a few at a time, and not for long.
LETTERS_AT_ONCE = 50
ROUNDS = 20
# Of some hundred entries each.
LOOKS = 500


# Batches per shard, while nobody archives them: the last minutes of a busy group, some MB.
KEPT_OUTCOMES = 1000


async def trim(pipeline: Pipeline, *, keys: Keys) -> int:
    """Notes how far each group has settled, and removes what all, `archive` above all, are done with; returns how many entries went."""
    of_streams = [await trim_stream(pipeline, keys=keys, shard=shard, name=name) for shard in keys.all_shards() for name in EVENT_STREAMS]
    return sum(of_streams)


async def trim_stream(pipeline: Pipeline, *, keys: Keys, shard: int, name: str) -> int:
    """The same for one stream. What somebody else removed is looked for before, a little of the stream at a time."""
    for _ in range(LOOKS):
        removed = int(await pipeline.run("trim", keys=[keys.events(shard, name), keys.registry(shard), keys.ledger(shard)], args=[]))
        if removed >= 0:
            return removed
    return 0


async def trim_dead(pipeline: Pipeline, *, keys: Keys, retention_ms: int) -> int:
    """Removes dead letters that are archived and past their retention; without an archive on them, none. Returns how many entries went."""
    at = [[keys.dead(shard), keys.dead_state(shard), keys.ledger(shard)] for shard in keys.all_shards()]
    return await _trim_decided(pipeline, "trim_dead", at=at, retention_ms=retention_ms)


async def trim_quarantine(pipeline: Pipeline, *, keys: Keys, retention_ms: int) -> int:
    """The same of refused requests that were kept aside."""
    at = [[keys.quarantine(shard), keys.quarantine_state(shard), keys.ledger(shard)] for shard in keys.all_shards()]
    return await _trim_decided(pipeline, "trim_quarantine", at=at, retention_ms=retention_ms)


async def _trim_decided(pipeline: Pipeline, script: str, *, at: Sequence[Sequence[str]], retention_ms: int) -> int:
    removed = 0
    for of_shard in at:
        for _ in range(ROUNDS):
            gone = await pipeline.run(script, keys=of_shard, args=[retention_ms, LETTERS_AT_ONCE])
            removed += gone
            if gone < LETTERS_AT_ONCE:
                break
    return removed


async def declared_groups(pipeline: Pipeline, *, keys: Keys, shard: int) -> list[str]:
    """The groups of workers, by name."""
    fields: list[bytes] = await pipeline.call("HKEYS", keys.registry(shard))
    declared = [field.decode().removeprefix("group:") for field in fields if field.startswith(b"group:")]
    return sorted(group for group in declared if group != ARCHIVE_GROUP)


async def trim_outcomes(pipeline: Pipeline, *, keys: Keys) -> int:
    """Removes the record of what was settled where it is archived; returns how many entries went."""
    removed = 0
    for shard in keys.all_shards():
        removed += await pipeline.run("trim_outcomes", keys=[keys.outcomes(shard), keys.ledger(shard)], args=[KEPT_OUTCOMES])
    return removed


async def reap(pipeline: Pipeline, *, keys: Keys, group: str, silent_ms: int = SILENT_MS) -> int:
    """Removes consumers of the group that were silent for so long and hold nothing; returns how many names went, over all streams."""
    removed = 0
    for shard in keys.all_shards():
        for stream in group_streams(keys, shard=shard, group=group):
            removed += await pipeline.run("reap", keys=[stream], args=[group, silent_ms])
    return removed
