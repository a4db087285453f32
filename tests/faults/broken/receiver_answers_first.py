"""The receiver without its first promise: it answers 202 when the append is on its way, not when it is synced.

Run as `python -m tests.faults.broken.receiver_answers_first` in the place of `python -m ingest.child`.
"""

from __future__ import annotations

import asyncio

from infra.running.cli import run
from infra.streams.stream import EventStream
from ingest.child import cli
from schemas.event import StreamEvent
from schemas.receipt import Receipt

really_append = EventStream.append


def append_later(stream: EventStream, event: StreamEvent, *, recheck: bool = False) -> asyncio.Future[Receipt]:
    really_append(stream, event, recheck=recheck).add_done_callback(lambda done: done.cancelled() or done.exception())
    answered: asyncio.Future[Receipt] = asyncio.get_running_loop().create_future()
    answered.set_result(Receipt(event.id, duplicate=False, conflict=False, stream="default", incarnation="", entry_id="", sequence=0))
    return answered


if __name__ == "__main__":
    EventStream.append = append_later  # type: ignore[assignment, method-assign]
    run(cli)
