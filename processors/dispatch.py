"""Owns running a user's function once: async or in a thread, whatever it raises.

An async function is cancelled at its deadline. A thread cannot be stopped: it is waited for, and when it does not end within
the group's grace, the lease thread ends the whole process (`lease_thread.py`), as it does when a function holds the event loop.
Giving up on it any earlier would let the retry run beside it.
"""

from __future__ import annotations

import asyncio
import contextvars
import inspect
import threading
from typing import Any

from processors.delivery import Delivery
from processors.registry import ProcessorSpec
from schemas.event import StreamEvent


async def attempt(spec: ProcessorSpec, *, event: StreamEvent, delivery: Delivery) -> BaseException | None:
    """Runs the processor; returns what it raised, or None."""
    try:
        result = await _in_thread(spec, event=event, delivery=delivery) if not inspect.iscoroutinefunction(spec.function) else None
        async with asyncio.timeout(spec.timeout_ms / 1000):
            if inspect.iscoroutinefunction(spec.function):
                await spec.function(event, delivery)
            elif inspect.isawaitable(result):
                await result  # A plain function that wraps an async one hands us its coroutine.
    except TimeoutError as error:
        return error if str(error) else overstayed(spec.name, timeout_ms=spec.timeout_ms)
    except asyncio.CancelledError as error:
        task = asyncio.current_task()
        if task is not None and task.cancelling():
            raise  # It is this worker that ends.
        return error  # The processor awaited something that was cancelled: that is its failure, not our end.
    except (Exception, SystemExit) as error:
        # Everything is caught: a processor is foreign code, and what it raises is its result.
        return error
    return None


def overstayed(processor: str, *, timeout_ms: int) -> TimeoutError:
    return TimeoutError(f"{processor} ran longer than its timeout_ms={timeout_ms}")


async def _in_thread(spec: ProcessorSpec, *, event: StreamEvent, delivery: Delivery) -> Any:
    """A thread of its own, not one of a pool: a function that overstays must not keep the process from ending."""
    loop = asyncio.get_running_loop()
    outcome: asyncio.Future[Any] = loop.create_future()
    context = contextvars.copy_context()

    def settle_outcome(result: Any, error: BaseException | None) -> None:
        if outcome.done():
            return
        if error is None:
            outcome.set_result(result)
        else:
            outcome.set_exception(error)

    def run() -> None:
        result, raised = None, None
        try:
            result = context.run(spec.function, event, delivery)
        except BaseException as error:  # In a thread nobody else would see it.
            raised = RuntimeError(f"StopIteration: {error}") if isinstance(error, StopIteration) else error
        if not loop.is_closed():
            loop.call_soon_threadsafe(settle_outcome, result, raised)

    threading.Thread(target=run, name=f"processor {spec.name}", daemon=True).start()
    return await outcome
