"""The receiver that answers before it has begun to append: when it dies in between, what it accepted is nowhere.

Run as `python -m tests.faults.broken.receiver_appends_later` in the place of `python -m ingest.child`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from infra.failpoints import reach
from infra.running.cli import run
from ingest.child import cli
from ingest.keeping import Keeper, spooled_receipt
from schemas.event import StreamEvent
from schemas.receipt import Receipt

really_keep = Keeper.keep
later: set[asyncio.Future[object]] = set()


async def keep_later(keeper: Keeper, events: Sequence[StreamEvent]) -> list[Receipt]:
    async def keep() -> None:
        await asyncio.sleep(0.2)
        reach("broken.before_append")
        await really_keep(keeper, events)

    later.add(asyncio.ensure_future(keep()))
    return [spooled_receipt(event) for event in events]


if __name__ == "__main__":
    Keeper.keep = keep_later  # type: ignore[assignment, method-assign]
    Keeper.takes_at_once = False  # type: ignore[assignment, method-assign]
    run(cli)
