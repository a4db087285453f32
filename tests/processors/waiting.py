"""Owns how these tests wait, and what they look at in the log."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

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
    """Entries that group g has not settled, wherever they wait."""
    client, keys, total = open_raw(log, home=home), Keys(log.prefix, log.shards), 0
    for shard in keys.all_shards():
        total += client.zcard(keys.delayed(shard))
        for stream in group_streams(keys, shard=shard, group="g"):
            groups = client.xinfo_groups(stream) if client.exists(stream) else []
            total += sum(group["pending"] + (group["lag"] or 0) for group in groups if group["name"] == b"g")
    client.close()
    return total


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
