"""Owns running a user's function once: async or in a thread, whatever it raises.

An async function is cancelled at its deadline. A thread cannot be stopped: it is waited for, and when it does not end within
the group's grace, the lease thread ends the whole process (`lease_thread.py`), as it does when a function holds the event loop.
Giving up on it any earlier would let the retry run beside it.
"""

from __future__ import annotations

import asyncio
import contextvars
import inspect
import math
import threading
import types
from collections.abc import Awaitable, Callable, Coroutine, Generator
from typing import Any

from processors.delivery import Delivery
from processors.middleware import run_within, work_of
from processors.registry import ProcessorSpec
from schemas.event import StreamEvent


class Deadlines:
    """Which attempts run until when: one timer for all of them, since nearly every attempt ends long before its deadline."""

    def __init__(self) -> None:
        self._until: dict[asyncio.Task[Any], float] = {}
        self._overrun: set[asyncio.Task[Any]] = set()
        self._timer: asyncio.TimerHandle | None = None
        self._timer_at = math.inf
        self.is_over = False
        """The worker ends: whoever is cancelled from now on is cancelled for good."""

    def begin(self, task: asyncio.Task[Any], *, timeout_s: float) -> None:
        loop = asyncio.get_running_loop()
        deadline = self._until[task] = loop.time() + timeout_s
        if deadline < self._timer_at:
            self._arm(loop, at=deadline)

    def end(self, task: asyncio.Task[Any]) -> bool:
        """Whether the attempt was cancelled for being too slow; the cancellation is then taken back."""
        self._until.pop(task, None)
        if not self._overrun or task not in self._overrun:
            return False
        self._overrun.discard(task)
        task.uncancel()
        return True

    def _arm(self, loop: asyncio.AbstractEventLoop, *, at: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer, self._timer_at = loop.call_at(at, self._cancel_overdue), at

    def _cancel_overdue(self) -> None:
        loop = asyncio.get_running_loop()
        self._timer, self._timer_at = None, math.inf
        for task in [task for task, until in self._until.items() if until <= loop.time()]:
            del self._until[task]
            self._overrun.add(task)
            task.cancel()
        if self._until:
            self._arm(loop, at=min(self._until.values()))


def start(
    spec: ProcessorSpec, event: StreamEvent, delivery: Delivery, task: asyncio.Task[Any] | None
) -> BaseException | Awaitable[Any] | None:
    """Begins an async processor in `task`, the one that runs; what it raised, or None when it has ended already, or else the rest of it.

    By hand, and not as a task: a function that ends without waiting for anything can overrun no deadline, and needs none. In a
    context of its own: what it sets there must not be found by the next one, which may be another tenant's.
    """
    running, context = spec.function(event, delivery), contextvars.copy_context()
    error: BaseException | None = None
    try:
        return _going_on(running, context.run(running.send, None), context)
    except StopIteration:
        pass
    except (Exception, SystemExit, asyncio.CancelledError) as raised:
        error = raised
    return error if task is None or not task.cancelling() else _told(error)


async def _told(error: BaseException | None) -> None:
    """How a processor ended that has cancelled our task, which has to outlive that."""
    if error is not None:
        raise error


async def attempt(spec: ProcessorSpec, event: StreamEvent, delivery: Delivery, deadlines: Deadlines) -> BaseException | None:
    """Runs the processor; returns what it raised, or None."""
    if not spec.is_async:
        return await finish(spec, _plain(spec, event=event, delivery=delivery), deadlines)
    outcome = start(spec, event, delivery, asyncio.current_task())
    if outcome is None or isinstance(outcome, BaseException):
        return outcome
    return await finish(spec, outcome, deadlines)


async def finish(spec: ProcessorSpec, rest: Awaitable[Any], deadlines: Deadlines) -> BaseException | None:
    """Waits for the rest of a processor, if it is async until its deadline; returns what it raised, or None."""
    error = await _under_deadline(spec, rest, deadlines)
    task = asyncio.current_task()
    if task is not None and task.cancelling():
        await _outlive(task, deadlines=deadlines)
    return error


async def _outlive(task: asyncio.Task[Any], *, deadlines: Deadlines) -> None:
    """The processor has cancelled the task that it ran in, which is ours: it would end in silence, and run nothing ever after."""
    if deadlines.is_over:
        raise asyncio.CancelledError  # It is this worker that ends, whatever the processor made of that.
    while task.cancelling():
        task.uncancel()
    try:
        await asyncio.sleep(0)  # What has not arrived yet arrives here, and not in the next attempt.
    except asyncio.CancelledError:
        if deadlines.is_over:
            raise


@types.coroutine
def _going_on(running: Coroutine[Any, Any, Any], waits_for: Any, context: contextvars.Context) -> Generator[Any, Any, Any]:
    """The rest of a coroutine that was begun by hand and waits for something."""
    step: Callable[[Any], Any]
    while True:
        try:
            given, step = (yield waits_for), running.send
        except BaseException as error:
            given, step = error, running.throw
        try:
            waits_for = context.run(step, given)
        except StopIteration as end:
            return end.value


async def _under_deadline(spec: ProcessorSpec, rest: Awaitable[Any], deadlines: Deadlines) -> BaseException | None:
    task, is_too_slow = asyncio.current_task(), False
    assert task is not None
    try:
        if not spec.is_async:
            # A plain function that wraps an async one hands us its coroutine; a thread cannot be cancelled.
            result = await rest
            if inspect.isgenerator(result) or inspect.isasyncgen(result):
                raise TypeError(f"{spec.name} returned a generator, of which nothing has run")
            if not inspect.isawaitable(result):
                return None
            rest = result
        deadlines.begin(task, timeout_s=spec.timeout_ms / 1000)
        try:
            await rest
        finally:
            is_too_slow = deadlines.end(task)
    except asyncio.CancelledError as error:
        if task.cancelling() and deadlines.is_over:
            raise  # It is this worker that ends.
        # Otherwise the processor awaited something that was cancelled, or cancelled itself: that is its failure, not our end.
        return overstayed(spec.name, timeout_ms=spec.timeout_ms) if is_too_slow else error
    except TimeoutError as error:
        return error if str(error) else overstayed(spec.name, timeout_ms=spec.timeout_ms)
    except (Exception, SystemExit) as error:
        # Everything is caught: a processor is foreign code, and what it raises is its result.
        return error
    return None


def overstayed(processor: str, *, timeout_ms: int) -> TimeoutError:
    return TimeoutError(f"{processor} ran longer than its timeout_ms={timeout_ms}")


async def _plain(spec: ProcessorSpec, *, event: StreamEvent, delivery: Delivery) -> Any:
    """What runs in a thread, with its middleware around the thread. It is not cancelled either: the thread would run on."""
    if not spec.middleware:
        return await _in_thread(spec, event=event, delivery=delivery)

    async def run() -> None:
        result = await _in_thread(spec, event=event, delivery=delivery)
        if inspect.isawaitable(result):
            await result

    return await run_within(spec.middleware, work=work_of(spec.name, event, delivery), run=run)


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
