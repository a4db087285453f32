"""Owns `Delivery`: what a processor may know about this handing of an event to it."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime

from structlog.typing import FilteringBoundLogger

from infra.streams.once import OnceWrite
from processors.once import Once
from schemas.event import from_epoch_ms


@dataclass(frozen=True, slots=True)
class Delivery:
    """One entry handed to one consumer. An event may be delivered more than once; `idempotency_key` is the same each time."""

    group: str
    processor: str
    attempt: int
    """The first is 1."""
    max_attempts: int
    deadline_ms: int
    """When this attempt is given up as too slow, in milliseconds since 1970."""
    event_id: str
    fence_token: int
    """Greater at each delivery of this event to this group: a system that refuses a smaller one than it has seen is safe from a
    worker that lost its lease and does not know it."""
    _log: FilteringBoundLogger = field(repr=False, compare=False)
    _once: Once | None = field(default=None, repr=False, compare=False)

    @property
    def deadline_at(self) -> datetime:
        """When this attempt is given up as too slow."""
        return from_epoch_ms(self.deadline_ms)

    @property
    def idempotency_key(self) -> str:
        """Stable for this group and event: hand it to systems that honour such keys, and effects happen once."""
        return f"{self.group}:{self.event_id}"

    # Made when it is asked for: most processors write nothing.
    @property
    def once(self) -> Once:
        """Writes that are made in the same step as the ack, and so happen once however often the event is delivered."""
        if self._once is None:
            object.__setattr__(self, "_once", Once())
        assert self._once is not None
        return self._once

    def end_once(self) -> tuple[OnceWrite, ...]:
        """What was written through `once`; later writes are refused."""
        return () if self._once is None else self._once.end()

    # Bound when it is asked for: most processors log nothing about most events.
    @property
    def log(self) -> FilteringBoundLogger:
        """Writes JSON lines that carry event id, group, attempt and trace id."""
        return self._log.bind(event_id=self.event_id, group=self.group, attempt=self.attempt)
