"""Owns our processor where waits are measured: it notes how long the event waited, and takes about a millisecond, as a quick call would."""

from __future__ import annotations

import asyncio
import functools

from processors import Delivery, StreamEvent, processor
from tests.benchmarks.waits import Waits

SLEEP_S = 0.001
# Not at import: the parent of the worker's processes imports this module, too.
_waits = functools.cache(Waits.of_this_process)


@processor("*")
async def sleeper(event: StreamEvent, delivery: Delivery) -> None:
    _waits().note(event.payload)
    await asyncio.sleep(SLEEP_S)
