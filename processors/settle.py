"""Owns the decision about a delivery after its attempt: ack, retry, park or dead letter. Pure; `infra/streams/settle.py` acts."""

from __future__ import annotations

import traceback

from infra.streams.once import OnceWrite
from infra.streams.reading import Lease
from infra.streams.settle import Ack, AckOnce, GiveUp, HoldBack, Park, RetryLater, Settlement
from processors.retry import RetryIn, RetryPolicy, attempt_number, describe, next_step, storable
from schemas.outcome import Ran

TRACEBACK_CHARACTERS = 8000
FIRST_TRACEBACK_CHARACTERS = 4000
"""Of a failure that is retried: it travels with the event from attempt to attempt."""


def after_attempt(error: BaseException | None, *, ran: Ran, policy: RetryPolicy, now_ms: int, hold_count: int | None = None) -> Settlement:
    """With `hold_count` a retry stays where it is, counted as delivered so often, so that nothing of its key overtakes it."""
    if error is None:
        return Ack(ran)
    step = next_step(error, attempt=ran.attempt, policy=policy)
    shown = "".join(traceback.format_exception(error))
    if isinstance(step, RetryIn):
        if hold_count is not None:
            return HoldBack(step.delay_ms, delivery_count=hold_count, ran=ran)
        said = storable(shown, most=FIRST_TRACEBACK_CHARACTERS)
        return RetryLater(step.delay_ms, retry_count=ran.attempt, error=describe(error), traceback=said, ran=ran)
    return GiveUp(
        processor=ran.processor,
        reason=step.reason,
        error=describe(error),
        traceback=storable(shown, most=TRACEBACK_CHARACTERS),
        attempts=ran.attempt,
        dead_at_ms=now_ms,
        ran=ran,
    )


def with_writes(writes: tuple[OnceWrite, ...], *, ran: Ran, now_ms: int) -> AckOnce:
    """Done, with what it wrote through `delivery.once`."""
    otherwise = GiveUp(processor=ran.processor, reason="", error="", traceback="", attempts=ran.attempt, dead_at_ms=now_ms, ran=ran)
    return AckOnce(ran.event_id, writes, otherwise)


def malformed(error: Exception, *, now_ms: int) -> GiveUp:
    """An entry that is no event can never succeed: a dead letter at once, its bytes kept."""
    return GiveUp(processor="", reason="the entry is no event", error=describe(error), traceback="", attempts=0, dead_at_ms=now_ms)


def parked(lease: Lease) -> Park:
    """An event of another version has failed no attempt; those that a worker of its own release died of stay counted."""
    retried = lease.fields.get(b"retry_count", b"")
    retry_count = int(retried) if retried.isdigit() and len(retried) < 10 else 0
    return Park(attempt_number(retry_count, lease.delivery_count) - 1)


def undecided(error: Exception, *, now_ms: int) -> GiveUp:
    """hooklake itself failed on the entry: a person must see it, and its neighbours must not wait for that."""
    return GiveUp(
        processor="",
        reason="hooklake could not run it; this is a defect, please report it",
        error=describe(error),
        traceback=storable("".join(traceback.format_exception(error)), most=TRACEBACK_CHARACTERS),
        attempts=0,
        dead_at_ms=now_ms,
    )


def deadly(*, processor: str, attempts: int, now_ms: int) -> GiveUp:
    """An entry whose workers died again and again is not given to another one."""
    return GiveUp(
        processor=processor,
        reason=f"its worker died while it was running, and its {attempts} attempts are used up",
        error="",
        traceback="",
        attempts=attempts,
        dead_at_ms=now_ms,
    )
