"""Owns `Delivery`: what a processor may know about this handing of an event to it."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING

from structlog.typing import FilteringBoundLogger

from infra.streams.once import OnceWrite
from infra.streams.reading import Lease
from infra.streams.replay import REPLAY_FIELD
from processors.once import Once
from processors.retry import fence_token
from schemas.event import from_epoch_ms

if TYPE_CHECKING:  # Its module needs to know what a delivery is.
    from processors.plan import Plan


class Delivery:
    """One entry handed to one consumer. An event may be delivered more than once; `idempotency_key` is the same each time.

    Made for every delivery, so it holds little and works out the rest when it is asked.
    """

    __slots__ = ("_attempt", "_event_id", "_lease", "_once", "_plan", "_started_at_ms")

    def __init__(self, plan: Plan, lease: Lease, event_id: str, attempt: int, started_at_ms: int) -> None:
        self._plan = plan
        self._lease = lease
        self._event_id = event_id
        self._attempt = attempt
        self._started_at_ms = started_at_ms
        self._once: Once | None = None

    def __repr__(self) -> str:
        return f"Delivery(group={self.group!r}, processor={self.processor!r}, event_id={self.event_id!r}, attempt={self.attempt})"

    @property
    def group(self) -> str:
        return self._plan.group

    @property
    def processor(self) -> str:
        return self._plan.name

    @property
    def event_id(self) -> str:
        return self._event_id

    @property
    def is_replay(self) -> bool:
        """True when the event comes from the archive because somebody replays it: this group may have handled it before."""
        return bool(self.replay_id)

    @property
    def replay_id(self) -> str:
        """Which replay brought it, as `hooklake replay list` shows it; the same for its retries. Empty for an event that arrived."""
        return self._lease.fields.get(REPLAY_FIELD.encode(), b"").decode(errors="replace")

    @property
    def attempt(self) -> int:
        """The first is 1."""
        return self._attempt

    @property
    def max_attempts(self) -> int:
        return self._plan.policy.max_attempts

    @property
    def started_at_ms(self) -> int:
        """When this attempt began, in milliseconds since 1970."""
        return self._started_at_ms

    @property
    def deadline_ms(self) -> int:
        """When this attempt is given up as too slow, in milliseconds since 1970."""
        return self._started_at_ms + self._plan.timeout_ms

    @property
    def deadline_at(self) -> datetime:
        """When this attempt is given up as too slow."""
        return from_epoch_ms(self.deadline_ms)

    @property
    def fence_token(self) -> int:
        """Greater at each delivery of this event to this group: a system that refuses a smaller one than it has seen is safe from a
        worker that lost its lease and does not know it."""
        return fence_token(entry_id=self._lease.entry_id, delivery_count=self._lease.delivery_count)

    @property
    def idempotency_key(self) -> str:
        """Stable for this group and event: hand it to systems that honour such keys, and effects happen once."""
        return f"{self.group}:{self.event_id}"

    # Made when it is asked for: most processors write nothing.
    @property
    def once(self) -> Once:
        """Writes that are made in the same step as the ack, and so happen once however often the event is delivered."""
        if self._once is None:
            self._once = Once()
        return self._once

    def end_once(self) -> tuple[OnceWrite, ...]:
        """What was written through `once`; later writes are refused."""
        return () if self._once is None else self._once.end()

    @property
    def log(self) -> FilteringBoundLogger:
        """Writes JSON lines that carry event id, group, attempt and trace id."""
        return self._plan.log.bind(event_id=self.event_id, group=self.group, attempt=self.attempt)
