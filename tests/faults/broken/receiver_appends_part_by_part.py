"""The receiver that appends the parts of a body one after the other, each by a call of its own.

Run as `python -m tests.faults.broken.receiver_appends_part_by_part` in the place of `python -m ingest.child`.
"""

from __future__ import annotations

from collections.abc import Sequence

from infra.failpoints import reach
from infra.running.cli import run
from infra.streams.stream import EventStream
from ingest.child import cli
from schemas.event import StreamEvent
from schemas.receipt import Receipt


async def append_one_by_one(stream: EventStream, events: Sequence[StreamEvent], *, recheck: bool = False) -> list[Receipt]:
    receipts = []
    for event in events:
        receipts.append(await stream.append(event, recheck=recheck))
        reach("receiver.before_answer")
    return receipts


if __name__ == "__main__":
    EventStream.append_parts = append_one_by_one  # type: ignore[assignment, method-assign]
    run(cli)
