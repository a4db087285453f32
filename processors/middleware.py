"""Owns middleware: what is done around the attempts of a processor, such as timing them or telling an error tracker."""

from __future__ import annotations

import functools
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any

from processors.delivery import Delivery
from schemas.event import StreamEvent

Next = Callable[[], Awaitable[None]]
"""What a middleware is around: the next one, and at last the processor."""


@dataclass(frozen=True, slots=True)
class Work:
    """What a processor is about to run: one event, or several where it takes them in batches."""

    processor: str
    events: Sequence[StreamEvent]
    deliveries: Sequence[Delivery]


class Middleware:
    """Something around every attempt; make a class of your own with another `around`.

    What it raises fails the attempt as if the processor had raised it; the attempt succeeds when it returns, whether it called
    `run` or not. The time it takes counts towards the processor's `timeout_ms`.
    """

    async def around(self, work: Work, run: Next) -> None:  # noqa: ARG002 - for those who look at it
        """Does nothing but run; runs on the event loop, also when the processor runs in a thread."""
        await run()


async def run_within(middleware: Sequence[Middleware], *, work: Work, run: Next) -> None:
    """Runs with the first one outermost."""
    for one in reversed(middleware):
        run = functools.partial(one.around, work, run)
    await run()


def surrounded(
    function: Callable[..., Awaitable[Any]], *, processor: str, middleware: Sequence[Middleware]
) -> Callable[..., Awaitable[None]]:
    """An async processor with its middleware around it, called as before."""

    @functools.wraps(function)
    async def run(event: Any, delivery: Any) -> None:
        await run_within(middleware, work=work_of(processor, event, delivery), run=functools.partial(function, event, delivery))

    return run


def work_of(processor: str, event: Any, delivery: Any) -> Work:
    """Of what a processor is called with: an event and its delivery, or lists of them."""
    return Work(processor, event, delivery) if isinstance(event, list) else Work(processor, [event], [delivery])
