"""Owns the record of attempts that a test looks at: a processor that notes each of its runs."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Awaitable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

from processors.delivery import Delivery
from processors.registry import ProcessorSpec
from schemas.event import StreamEvent


@dataclass(frozen=True, slots=True)
class Run:
    """One attempt that has ended."""

    event: StreamEvent
    delivery: Delivery
    error: BaseException | None
    """What the processor raised; asyncio.CancelledError when it overstayed its time."""

    @property
    def attempt(self) -> int:
        return self.delivery.attempt


def recorded(spec: ProcessorSpec, *, runs: list[Run]) -> ProcessorSpec:
    """The same processor, async or in a thread as before, with a note of each attempt."""
    function = spec.function

    @functools.wraps(function)
    async def run(event: StreamEvent, delivery: Delivery) -> Any:
        with _noted(runs, event=event, delivery=delivery):
            return await function(event, delivery)

    async def awaited(result: Awaitable[Any], event: StreamEvent, delivery: Delivery) -> Any:
        with _noted(runs, event=event, delivery=delivery):
            return await result

    @functools.wraps(function)
    def run_in_thread(event: StreamEvent, delivery: Delivery) -> Any:
        try:
            result = function(event, delivery)
        except BaseException as error:
            runs.append(Run(event, delivery, error))
            raise
        if inspect.isawaitable(result):  # The attempt is not over: the worker awaits it.
            return awaited(result, event, delivery)
        runs.append(Run(event, delivery, None))
        return result

    return replace(spec, function=run if inspect.iscoroutinefunction(function) else run_in_thread)


@contextmanager
def _noted(runs: list[Run], *, event: StreamEvent, delivery: Delivery) -> Iterator[None]:
    error: BaseException | None = None
    try:
        yield
    except BaseException as raised:
        error = raised
        raise
    finally:
        runs.append(Run(event, delivery, error))
