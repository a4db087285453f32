"""Owns how these tests take deliveries as a group and settle them."""

from __future__ import annotations

from typing import Any

from infra.streams import groups
from infra.streams.keys import Keys
from infra.streams.pipelining import Pipeline
from infra.streams.settle import GiveUp, Settlement, settle
from infra.streams.stream import GroupReader, Lease

GIVE_UP = GiveUp(processor="p", reason="because", error="ValueError: x", traceback="tb", attempts=4, dead_at_ms=1_700_000_000_000)
TOO_MANY = 4100
"""More fields than Lua can pass on in one call."""


async def reader_of(pipeline: Pipeline, keys: Keys, *, consumer: str = "c1", group: str = "g") -> GroupReader:
    await groups.declare(pipeline, keys=keys, group=group)
    return GroupReader(pipeline, keys=keys, group=group, consumer=consumer)


async def settle_as(reader: GroupReader, pipeline: Pipeline, keys: Keys, *decisions: tuple[Lease, Settlement]) -> list[Lease]:
    return await settle(pipeline, keys=keys, group=reader.group, consumer=reader.consumer, decisions=decisions)


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
