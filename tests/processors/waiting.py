"""Owns how these tests wait, and what they look at in the log."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

from infra.settings import LogSettings
from infra.streams.dead_letters import DeadLetters
from infra.streams.keys import Keys
from infra.streams.reading import group_streams
from infra.streams.stream import EventStream
from schemas.dead_letter import DeadLetter
from schemas.event import StreamEvent
from tests.infra.streams.raw import open_raw

DEADLINE_S = 20.0


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(DEADLINE_S):
        while not condition():  # noqa: ASYNC110 - the condition is in the server, which sets no event of ours
            await asyncio.sleep(0.01)


def letters(log: LogSettings, home: Path) -> list[DeadLetter]:
    opened = DeadLetters.open(log, home=home)
    found = list(opened.letters())
    opened.close()
    return found


def unsettled(log: LogSettings, home: Path) -> int:
    """Entries that group g has not settled, wherever they wait: also those of a stream on which nobody has declared it yet."""
    client, keys, total = open_raw(log, home=home), Keys(log.prefix, log.shards), 0
    for shard in keys.all_shards():
        # In one step per shard: an entry that fails goes from its stream to the delayed ones, and from there to the retries.
        look, streams = client.pipeline(), group_streams(keys, shard=shard, group="g")
        look.zcard(keys.delayed(shard))
        for stream in streams:
            look.xlen(stream).xinfo_groups(stream)
        delayed, *found = look.execute(raise_on_error=False)
        total += delayed
        for stream, length, groups in zip(streams, found[::2], found[1::2], strict=True):
            total += _unsettled_of(client, stream, length=length, groups=groups) if length else 0
    client.close()
    return total


def _unsettled_of(client: Any, stream: str, *, length: int, groups: list[dict[str, Any]]) -> int:
    ours = [group for group in groups if group["name"] == b"g"]
    if not ours:
        return length
    (group,) = ours
    if group["lag"] is None:  # The server does not count behind an entry that was deleted.
        return int(group["pending"]) + len(client.xrange(stream, min=b"(" + group["last-delivered-id"]))
    return int(group["pending"] + group["lag"])


async def take_and_die(
    stream: EventStream, log: LogSettings, home: Path, *, events: list[StreamEvent], consumer: str, deliveries: int = 1
) -> None:
    """Leaves the state of a consumer that read the events and was killed: a real server knows no more of a kill than this."""
    client, keys = open_raw(log, home=home), Keys(log.prefix, log.shards)
    for event in events:
        await stream.append(event)
    for shard in keys.all_shards():
        name = keys.events(shard, "default")
        client.xgroup_create(name, "g", id="0", mkstream=True)
        for _, taken in client.xreadgroup("g", consumer, {name: ">"}):
            for entry_id, _ in taken:
                for _ in range(deliveries - 1):
                    client.xclaim(name, "g", consumer, 0, [entry_id])
    client.close()
