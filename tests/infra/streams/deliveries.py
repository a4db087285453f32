"""Owns how these tests take deliveries as a group and settle them."""

from __future__ import annotations

from typing import Any

from infra.streams import groups
from infra.streams.keys import Keys
from infra.streams.pipelining import Pipeline
from infra.streams.reading import GroupReader, Lease
from infra.streams.settle import GiveUp, Settlement, settle
from infra.streams.stream import EventStream
from schemas.event import StreamEvent
from tests.events import an_event

GIVE_UP = GiveUp(processor="p", reason="because", error="ValueError: x", traceback="tb", attempts=4, dead_at_ms=1_700_000_000_000)
TOO_MANY = 4100
"""More fields than Lua can pass on in one call."""


async def reader_of(pipeline: Pipeline, keys: Keys, *, consumer: str = "c1", group: str = "g") -> GroupReader:
    await groups.declare(pipeline, keys=keys, group=group)
    return GroupReader(pipeline, keys=keys, group=group, consumer=consumer)


async def settle_as(reader: GroupReader, pipeline: Pipeline, keys: Keys, *decisions: tuple[Lease, Settlement]) -> list[Lease]:
    return await settle(pipeline, keys=keys, group=reader.group, consumer=reader.consumer, decisions=decisions)


async def give_up_all(reader: GroupReader, pipeline: Pipeline, keys: Keys) -> None:
    while taken := await reader.read(budget=100, block_ms=50):
        await settle_as(reader, pipeline, keys, *((lease, GIVE_UP) for lease in taken))


async def give_up(stream: EventStream, pipeline: Pipeline, keys: Keys, *, events: list[StreamEvent]) -> None:
    reader = await reader_of(pipeline, keys)
    for event in events:
        await stream.append(event)
        await give_up_all(reader, pipeline, keys)


async def read_all(reader: GroupReader) -> list[Lease]:
    """Everything that waits; one read takes no more of a stream than its share."""
    found: list[Lease] = []
    while taken := await reader.read(budget=100, block_ms=50):
        found += taken
    return found


async def read_one(reader: GroupReader) -> Lease:
    (lease,) = await reader.read(budget=100, block_ms=1000)
    return lease


async def pending(pipeline: Pipeline, lease: Lease) -> int:
    reply = await pipeline.call("XPENDING", lease.stream, "g")
    return int(reply[0])


def add_foreign(client: Any, stream: str, fields: dict[str, str]) -> None:
    """An entry that no receiver of ours wrote."""
    client.execute_command("XADD", stream, "*", *[part for pair in fields.items() for part in pair])


def make_due(client: Any, delayed: str) -> None:
    """Lowers all scores to the far past: the server's own clock decides, and cannot be moved."""
    for member in client.zrange(delayed, 0, -1):
        client.zadd(delayed, {member: 1})


async def append_ten(stream: EventStream) -> list[str]:
    """The entry ids of ten events, in their order."""
    return [(await stream.append(an_event())).entry_id for _ in range(10)]
