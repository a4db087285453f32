from __future__ import annotations

from pathlib import Path
from typing import Any

from infra.settings import LogSettings
from infra.streams.dead_letters import DeadLetters
from infra.streams.keys import Keys
from infra.streams.overview import overview
from infra.streams.pipelining import Pipeline
from infra.streams.ranges import ArchiveLog
from infra.streams.reading import Lease
from infra.streams.settle import Ack, RetryLater, Settlement
from infra.streams.stream import EventStream
from tests.events import an_event
from tests.infra.streams.deliveries import GIVE_UP, reader_of, settle_as


async def test_one_look_tells_counts_retries_dead_letters_and_losses(
    stream: EventStream, pipeline: Pipeline, keys: Keys, client: Any, log: LogSettings, home: Path
) -> None:
    reader = await reader_of(pipeline, keys)
    for _ in range(6):
        await stream.append(an_event(key="one shard"))
    acked, waiting, dead, requeued, gone, _in_hand = await reader.read(budget=500, block_ms=1000)
    client.xdel(gone.stream, gone.entry_id)
    decisions: list[tuple[Lease, Settlement]] = [
        (acked, Ack()),
        (waiting, RetryLater(60_000, 1)),
        (dead, GIVE_UP),
        (requeued, GIVE_UP),
        (gone, RetryLater(0, 1)),
    ]
    await settle_as(reader, pipeline, keys, *decisions)
    dead_letters = DeadLetters.open(log, home=home)
    dead_letters.requeue(next(dead_letters.letters()))
    dead_letters.close()

    found = await overview(pipeline, keys=keys)

    (group,) = found.groups
    assert (found.accepted, found.waiting_retries, found.open_dead_letters) == (6, 1, 1)
    assert (group.group, group.kind, group.pending, group.dead_letters, group.dead_letters_ever, group.lost) == ("g", "durable", 1, 1, 2, 1)
    assert (group.undelivered, group.oldest_ms is not None) == (1, True)  # what was requeued
    assert found.archived_rows is None


async def test_the_books_balance_over_archived_events_the_log_and_losses(
    stream: EventStream, pipeline: Pipeline, keys: Keys, log: LogSettings, home: Path
) -> None:
    for _ in range(20):
        await stream.append(an_event())
    archive_log = ArchiveLog.open(log, home=home)
    archive_log.move({end.stream: end.last for end in archive_log.ends()})
    archive_log.note_totals({"rows:events": 19, "foreign:events": 1, "lost:archive": 4, "before:accepted": 3, "repeated:events": 1})
    archive_log.close()
    for _ in range(3):
        await stream.append(an_event())

    found = await overview(pipeline, keys=keys)

    assert (found.accepted, found.archived_rows, found.foreign_rows, found.above_archived, found.lost) == (25, 19, 1, 3, 4)
    assert found.out_of_balance == 0
