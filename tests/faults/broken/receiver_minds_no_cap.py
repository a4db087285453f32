"""The receiver that goes on until the log's memory is full: nothing is left for what empties the log.

Run as `python -m tests.faults.broken.receiver_minds_no_cap` in the place of `python -m ingest.child`.
"""

from __future__ import annotations

from infra.running.cli import run
from infra.settings import LogSettings
from infra.streams.stream import EventStream
from ingest.child import cli


async def no_cap(stream: EventStream, log: LogSettings) -> bool:
    return False


if __name__ == "__main__":
    EventStream.mind_hard_cap = no_cap  # type: ignore[assignment, method-assign]
    run(cli)
