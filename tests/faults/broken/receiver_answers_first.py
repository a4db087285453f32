"""The receiver without its first promise: it answers 202 when the append is on its way, not when it is synced.

Run as `python -m tests.faults.broken.receiver_answers_first` in the place of `python -m ingest.child`.
"""

from __future__ import annotations

import asyncio

from infra.running.cli import run
from infra.streams.gathering import Batch
from infra.streams.stream import EventStream
from ingest.child import cli
from schemas.event import StreamEvent
from schemas.receipt import Receipt

really_append, really_begin = EventStream.append, EventStream.begin


def untrue_receipt(event_id: str) -> Receipt:
    return Receipt(event_id, duplicate=False, conflict=False, stream="default", incarnation="", entry_id="", sequence=0)


def append_later(stream: EventStream, event: StreamEvent, *, recheck: bool = False) -> asyncio.Future[Receipt]:
    really_append(stream, event, recheck=recheck).add_done_callback(lambda done: done.cancelled() or done.exception())
    answered: asyncio.Future[Receipt] = asyncio.get_running_loop().create_future()
    answered.set_result(untrue_receipt(event.id))
    return answered


def begin_and_tell(stream: EventStream, batch: Batch) -> None:
    unheard = Batch(batch.shard, window=batch.window, recheck=batch.recheck)
    for event in batch.events:
        unheard.add(event)
    really_begin(stream, unheard)
    asyncio.get_running_loop().call_soon(batch.tell, [untrue_receipt(event.event_id) for event in batch.events])


if __name__ == "__main__":
    EventStream.append = append_later  # type: ignore[assignment, method-assign]
    EventStream.begin = begin_and_tell  # type: ignore[assignment, method-assign]
    run(cli)
