"""Owns the record of attempts that a test looks at: a processor that notes each of its runs."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Awaitable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

from processors.delivery import Delivery
from processors.middleware import work_of
from processors.registry import ProcessorSpec
from processors.signals import SomeFailed
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
    """The same processor, async or in a thread as before, with a note of each attempt; of a batch one for each of its events."""
    function = spec.function

    @functools.wraps(function)
    async def run(event: Any, delivery: Any) -> Any:
        with _noted(runs, event=event, delivery=delivery):
            return await function(event, delivery)

    async def awaited(result: Awaitable[Any], event: Any, delivery: Any) -> Any:
        with _noted(runs, event=event, delivery=delivery):
            return await result

    @functools.wraps(function)
    def run_in_thread(event: Any, delivery: Any) -> Any:
        try:
            result = function(event, delivery)
        except BaseException as error:
            runs.extend(_runs(event, delivery, error=error))
            raise
        if inspect.isawaitable(result):  # The attempt is not over: the worker awaits it.
            return awaited(result, event, delivery)
        runs.extend(_runs(event, delivery, error=None))
        return result

    return replace(spec, function=run if inspect.iscoroutinefunction(function) else run_in_thread)


@contextmanager
def _noted(runs: list[Run], *, event: Any, delivery: Any) -> Iterator[None]:
    error: BaseException | None = None
    try:
        yield
    except BaseException as raised:
        error = raised
        raise
    finally:
        runs.extend(_runs(event, delivery, error=error))


def _runs(event: Any, delivery: Any, *, error: BaseException | None) -> list[Run]:
    work, named = work_of("", event, delivery), error.errors if isinstance(error, SomeFailed) else None
    pairs = zip(work.events, work.deliveries, strict=True)
    return [Run(one, its_delivery, error if named is None else named.get(one.id)) for one, its_delivery in pairs]
