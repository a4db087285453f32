"""Owns putting events on streams quickly: in their wire form, numbered as by a receiver's append, but without its look for duplicates."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import redis

from infra.settings import LogSettings
from infra.streams.entries import LOG_FIELDS, encode
from infra.streams.incarnations import new_incarnation
from infra.streams.keys import Keys
from infra.streams.scripts import Argument, run_blocking
from tests.events import an_event

BODY_BYTES = 1800
AT_ONCE = 1000
# KEYS 1 stream 2 ledger, ARGV 1 the stream's class 2.. fields and values. Entries without numbers, or of an incarnation that the ledger
# does not know, would send the log's housekeeping looking for a loss, which is not what is measured.
NUMBERED = """
local incarnation = redis.call('HGET', KEYS[2], 'incarnation')
local number = redis.call('HINCRBY', KEYS[2], 'sequence:' .. ARGV[1] .. ':' .. incarnation, 1)
local entry = {'XADD', KEYS[1], '*'}
for i = 2, #ARGV do
    entry[#entry + 1] = ARGV[i]
end
for _, part in ipairs({'incarnation', incarnation, 'sequence', number, 'recheck', '0', 'conflict', '0'}) do
    entry[#entry + 1] = part
end
return redis.call(unpack(entry))
"""


# What the script adds, for those that do without it.
AS_LARGE: list[Argument] = [part for name in LOG_FIELDS for part in (name, "0" * 8 if name == "incarnation" else 1)]


def a_body() -> bytes:
    """JSON of the size that all contenders get."""
    return b'{"ref": "' + b"x" * (BODY_BYTES - 11) + b'"}'


def wire_form(**changes: Any) -> list[Argument]:
    """Fields and values of an event, without those that the log adds; `changes` are those of `an_event`."""
    return encode(an_event(**{"payload": a_body(), **changes}))


def wire_forms(count: int, **changes: Any) -> Iterator[list[Argument]]:
    """Of `count` different events."""
    return (wire_form(**changes) for _ in range(count))


class Filling:
    """Adds entries to a log, or, for a contender that knows no log, to any other stream."""

    def __init__(self, client: redis.Redis, *, is_log: bool = True) -> None:
        self._client = client
        self._sha: Any = client.script_load(NUMBERED) if is_log else None
        log = LogSettings()
        keys = Keys(log.prefix, log.shards)
        for shard in keys.all_shards() if is_log else ():
            run_blocking(client, "begin", keys=[keys.ledger(shard), keys.registry(shard)], args=[new_incarnation(), log.shards])

    def command(self, stream: str, fields: Sequence[Argument]) -> list[Argument]:
        """What adds one entry."""
        if self._sha is None:
            return ["XADD", stream, "*", *fields, *AS_LARGE]
        shard, _, name = stream.partition(":events:")
        return ["EVALSHA", self._sha, 2, stream, f"{shard}:ledger", name, *fields]

    def add(self, streams: Sequence[str], *, count: int, **changes: Any) -> None:
        """Spreads `count` events over the streams in turn."""
        pipeline: Any = self._client.pipeline(transaction=False)
        for turn in range(count):
            pipeline.execute_command(*self.command(streams[turn % len(streams)], wire_form(**changes)))
            if turn % AT_ONCE == AT_ONCE - 1 or turn == count - 1:
                pipeline.execute()
