"""Owns trimming the log while nobody asks; due retries are promoted by `delayed.py`.

Run by every worker; each act is one script, so that several janitors do no harm.
"""

from __future__ import annotations

from infra.streams.keys import Keys
from infra.streams.pipelining import Pipeline


async def trim(pipeline: Pipeline, *, keys: Keys) -> int:
    """Removes what every group, `archive` above all, is done with; returns how many entries went."""
    removed = 0
    for shard in keys.all_shards():
        for stream in keys.event_streams(shard):
            removed += await pipeline.run("trim", keys=[stream, keys.registry(shard)], args=[])
    return removed
