"""The receiver that makes a request of whatever comes, and reads on with every answer: who reads none of those fills its memory.

Run as `python -m tests.faults.broken.receiver_queues_without_end` in the place of `python -m ingest.child`.
"""

from __future__ import annotations

from uvicorn.protocols.http.flow_control import FlowControl

from infra.running.cli import run
from infra.running.queueing import Flow, Queue
from ingest.child import cli


def has_always_room(queue: Queue, *, read_bytes: int) -> bool:
    return True


if __name__ == "__main__":
    Queue.enter = has_always_room  # type: ignore[assignment, method-assign]
    Flow.resume_reading = FlowControl.resume_reading  # type: ignore[method-assign]
    run(cli)
