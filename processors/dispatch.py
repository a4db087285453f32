"""Owns running a user's function once: async or in a thread, under its deadline, whatever it raises."""

from __future__ import annotations

import asyncio
import inspect

from processors.delivery import Delivery
from processors.registry import ProcessorSpec
from schemas.event import StreamEvent


async def attempt(spec: ProcessorSpec, *, event: StreamEvent, delivery: Delivery) -> BaseException | None:
    """Runs the processor; returns what it raised, or None. A thread that overstays its deadline cannot be stopped, only left."""
    try:
        async with asyncio.timeout(spec.timeout_ms / 1000):
            if inspect.iscoroutinefunction(spec.function):
                await spec.function(event, delivery)
            else:
                await asyncio.to_thread(spec.function, event, delivery)
    except TimeoutError as error:
        return error if str(error) else TimeoutError(f"{spec.name} ran longer than its timeout_ms={spec.timeout_ms}")
    except (Exception, SystemExit) as error:
        # Third place where everything is caught: a processor is foreign code, and what it raises is its result.
        return error
    return None
