"""Owns what is recorded for the archive beside events: `Outcome`, what became of one delivery in its group, and `Alias`."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Literal, NamedTuple

Step = Literal["ack", "retry", "dead_letter", "park"]


class Ran(NamedTuple):
    """One attempt that has ended; made for every delivery, so a tuple."""

    event_id: str
    processor: str
    """Empty where no processor of the group wants the event."""
    attempt: int
    started_at_ms: int
    duration_ms: float


# A quarter of what its constructor costs.
ran: Callable[[tuple[str, str, int, int, float]], Ran] = functools.partial(tuple.__new__, Ran)


class Alias(NamedTuple):
    """An accepted event that turned out to be an earlier one's duplicate after its sender had been answered with `event_id`."""

    event_id: str
    first_id: str
    """The event that there is."""
    tenant_id: str
    source: str


class Outcome(NamedTuple):
    """One settled delivery."""

    group: str
    consumer: str
    step: Step
    ran: Ran
