"""Owns `Delivery`: what a processor may know about this handing of an event to it."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime

from structlog.typing import FilteringBoundLogger


@dataclass(frozen=True, slots=True)
class Delivery:
    """One entry handed to one consumer. An event may be delivered more than once; `idempotency_key` is the same each time."""

    group: str
    processor: str
    attempt: int
    """The first is 1."""
    max_attempts: int
    deadline_at: datetime
    """When this attempt is given up as too slow."""
    idempotency_key: str
    """Stable for this group and event: hand it to systems that honour such keys, and effects happen once."""
    log: FilteringBoundLogger = field(repr=False, compare=False)
    """Writes JSON lines that carry event id, group, attempt and trace id."""
