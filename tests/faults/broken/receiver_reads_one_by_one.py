"""The receiver that reads one body after the other: all wait for a slow one.

Run as `python -m tests.faults.broken.receiver_reads_one_by_one` in the place of `python -m ingest.child`.
"""

from __future__ import annotations

import asyncio

from starlette.types import Receive

from infra.running.cli import run
from ingest import receive as receiving
from ingest.body import read_body
from ingest.child import cli
from ingest.limits import Held

turn = asyncio.Lock()


async def read_in_turn(receive: Receive, *, max_bytes: int, held: Held) -> bytes:
    async with turn:
        return await read_body(receive, max_bytes=max_bytes, held=held)


if __name__ == "__main__":
    receiving.read_body = read_in_turn  # type: ignore[attr-defined]  # it is imported there
    run(cli)
