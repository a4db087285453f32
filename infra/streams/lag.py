"""Owns how far behind a group is, stream by stream."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from infra.streams.keys import ARCHIVE_GROUP, Keys
from infra.streams.pipelining import Pipeline
from infra.streams.positions import id_order
from infra.streams.reading import group_streams
from schemas.errors import StreamUnavailable


@dataclass(frozen=True, slots=True)
class StreamLag:
    """One group on one stream; `undelivered` is None when the server cannot tell, which is not 0."""

    stream: str
    """Shard and stream without the log's prefix, `2:events:default`."""
    group: str
    undelivered: int | None
    pending: int
    delivered_to: str
    """The newest entry id that the group was handed, or moved to."""

    @property
    def unsettled(self) -> int | None:
        return None if self.undelivered is None else self.undelivered + self.pending


async def read_lag(pipeline: Pipeline, *, keys: Keys, group: str) -> list[StreamLag]:
    """The group's streams on which it exists; a stream that nobody has made yet has no lag."""
    found: list[StreamLag] = []
    for shard in keys.all_shards():
        streams = keys.event_streams(shard) if group == ARCHIVE_GROUP else group_streams(keys, shard=shard, group=group)
        for stream in streams:
            found += [lag for lag in await _groups_on(pipeline, keys=keys, stream=stream) if lag.group == group]
    return found


async def _groups_on(pipeline: Pipeline, *, keys: Keys, stream: str) -> list[StreamLag]:
    try:
        reply = await pipeline.call("XINFO", "GROUPS", stream)
    except StreamUnavailable as error:
        if "no such key" in str(error):
            return []
        raise
    name = short_name(stream, keys=keys)
    return [_stream_lag(flat, stream=name) for flat in reply]


def _stream_lag(flat: Sequence[Any], *, stream: str) -> StreamLag:
    info = dict(zip(flat[::2], flat[1::2], strict=True))
    delivered_to = info[b"last-delivered-id"].decode()
    return StreamLag(stream, info[b"name"].decode(), info[b"lag"], info[b"pending"], delivered_to)


def short_name(stream: str, *, keys: Keys) -> str:
    return stream.removeprefix(keys.prefix).replace("{", "").replace("}", "")


async def oldest_undelivered_ms(pipeline: Pipeline, *, keys: Keys, lag: StreamLag) -> int | None:
    """How long the oldest entry that the group was not handed has waited, by the server's clock; None when there is none."""
    shard, _, rest = lag.stream.partition(":")
    found = await pipeline.call("XRANGE", f"{keys.prefix}{{{shard}}}:{rest}", f"({lag.delivered_to}", "+", "COUNT", 1)
    if not found:
        return None
    seconds, microseconds = await pipeline.call("TIME")
    return max(0, int(seconds) * 1000 + int(microseconds) // 1000 - id_order(found[0][0].decode())[0])
