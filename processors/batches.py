"""Owns what a call with a batch of events means for each of them. Pure.

When such a call fails, it is nobody's failure yet: the batch is run again in halves, uncharged, until whoever fails alone is
charged for it. One event that cannot be processed is found in a few calls, and never costs its neighbours an attempt.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from processors.signals import Reject, SomeFailed

Item = TypeVar("Item")


def errors_of(error: BaseException | None, *, event_ids: Sequence[str]) -> list[BaseException | None] | None:
    """The error of each event, or None when it is not known whose failure it is."""
    if isinstance(error, SomeFailed) and error.errors.keys() <= set(event_ids):
        return [error.errors.get(event_id) for event_id in event_ids]
    if error is None or len(event_ids) == 1:
        return [error for _ in event_ids]
    return None


def worst(errors: Sequence[BaseException | None]) -> BaseException | None:
    """What a call says about its processor: that it works, as long as it has done something, or judged it."""
    return None if any(error is None or isinstance(error, Reject) for error in errors) else errors[0]


def halves(batch: list[Item]) -> list[list[Item]]:
    middle = (len(batch) + 1) // 2
    return [batch[:middle], batch[middle:]]


def taking_one(function: Callable[..., Any], *, is_async: bool) -> Callable[..., Any]:
    """A function that takes batches, and now also an event and its delivery: a batch of one, which fails by its own error."""

    @functools.wraps(function)
    async def run(event: Any, delivery: Any) -> None:
        if isinstance(event, list):
            await function(event, delivery)
            return
        try:
            await function([event], [delivery])
        except SomeFailed as failed:
            raise failed.errors.get(event.id, failed) from None

    @functools.wraps(function)
    def run_in_thread(event: Any, delivery: Any) -> Any:
        if isinstance(event, list):
            return function(event, delivery)
        try:
            return function([event], [delivery])
        except SomeFailed as failed:
            raise failed.errors.get(event.id, failed) from None

    return run if is_async else run_in_thread
