"""A worker makes room on a log that is above its soft cap, at the expense of the groups that lag and of no other."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from infra.settings import LogSettings
from infra.streams import groups
from infra.streams.connection import open_pipeline
from infra.streams.keys import Keys
from infra.streams.ranges import ArchiveLog
from infra.streams.stream import EventStream
from processors import Delivery, StreamEvent, processor
from tests.events import an_event
from tests.infra.streams.raw import open_raw
from tests.processors.conftest import Starter
from tests.processors.waiting import unsettled, until


async def test_a_worker_makes_room_at_the_expense_of_a_group_that_nobody_reads(
    stream: EventStream, working: Starter, log: LogSettings, home: Path
) -> None:
    done: list[str] = []

    @processor("*")
    async def quick(event: StreamEvent, delivery: Delivery) -> None:
        done.append(event.id)

    heavy = log.model_copy(update={"soft_cap": "1KiB", "hard_cap": "1GiB"})
    client, keys, archive, acts = (
        open_raw(log, home=home),
        Keys(log.prefix, log.shards),
        ArchiveLog.open(log, home=home),
        open_pipeline(log, home=home),
    )
    await groups.declare(acts, keys=keys, group="left")
    for _ in range(40):
        await stream.append(an_event())

    async with working(quick, on_log=heavy):
        await until(lambda: len(done) == 40 and unsettled(log, home) == 0)
        archive.move({end.stream: end.last for end in archive.ends()})
        await until(lambda: entries(client, keys) == 0)

    assert owed(client, keys, "left") == 40
    assert owed(client, keys, "g") == 0
    archive.close()
    client.close()
    await acts.close()


def entries(client: Any, keys: Keys) -> int:
    return sum(client.xlen(stream) for shard in keys.all_shards() for stream in keys.event_streams(shard))


def owed(client: Any, keys: Keys, group: str) -> int:
    return sum(int(client.hget(keys.ledger(shard), f"owed:{group}") or 0) for shard in keys.all_shards())
