"""The worker without isolation: what its dead predecessor left runs all at once, the poison among its neighbours.

Run as `python -m tests.faults.broken.worker_takes_all_at_once` in the place of `python -m processors`, and as
`... .child` in the place of `processors.child`.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable, Callable

from infra.running.cli import run
from infra.streams import leases
from infra.streams.reading import Lease
from processors import __main__ as parent
from processors import child
from processors.intake import Intake

HERE = "tests.faults.broken.worker_takes_all_at_once"


async def take_over(self: Intake, stop: asyncio.Event, *, run_alone: Callable[[Lease], Awaitable[None]]) -> None:
    while self._leftovers and not stop.is_set():
        place = self._leftovers.popleft()
        lease = await leases.take_again(self._acts, keys=self._keys, reader=self._reader, place=place)
        self.enqueue([lease] if lease is not None else [])


if __name__ == "__main__":
    if "--ops-fd" in sys.argv:
        Intake.take_over = take_over  # type: ignore[method-assign]
        run(child.app)
    parent.CHILD_MODULE = HERE
    run(parent.app)
