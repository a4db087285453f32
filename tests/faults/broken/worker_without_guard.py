"""The worker whose loops are not guarded: whatever fails in one round ends the child, and the next child, and the next.

Run as `python -m tests.faults.broken.worker_without_guard` in the place of `python -m processors`.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable, Callable
from typing import Any

from infra.running.cli import run
from infra.running.loops import wait_or_stop
from processors import __main__ as parent
from processors import child, worker

HERE = "tests.faults.broken.worker_without_guard"


async def run_unguarded(step: Callable[[], Awaitable[object]], *, stop: asyncio.Event, interval_ms: int = 0, **_: Any) -> None:
    while not stop.is_set():
        await step()
        await wait_or_stop(stop, interval_ms / 1000)


if __name__ == "__main__":
    if "--ops-fd" in sys.argv:
        worker.keep_running = run_unguarded  # type: ignore[attr-defined]
        run(child.app)
    parent.CHILD_MODULE = HERE
    run(parent.app)
