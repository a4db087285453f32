"""Owns what happens after an attempt failed: again at once, later, or never. Pure, but for the jitter of delays."""

from __future__ import annotations

import math
import random
from dataclasses import dataclass

from processors.signals import Reject, Retry

ERROR_CHARACTERS = 2000
DELIVERIES_PER_ENTRY = 4096


@dataclass(frozen=True, slots=True)
class Exponential:
    """Waits that grow by a factor, give or take the jitter, so that what failed together does not come back together."""

    first_ms: int = 1000
    factor: float = 2.0
    cap_ms: int = 3_600_000
    jitter: float = 0.2

    def delay_ms_after(self, attempt: int, *, chance: float) -> int:
        """`chance` is between 0 and 1. Pure."""
        grown = min(float(self.cap_ms), self.first_ms * self.factor ** min(attempt - 1, 64))
        return math.ceil(grown * (1 + self.jitter * (2 * chance - 1)))


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """How often an event is tried and how long it waits in between.

    The default: attempt, again at once, after 1 s, after 2 s, then dead letter. The first retry costs nothing and heals
    most of what a reconnect heals.
    """

    max_attempts: int = 4
    delays_ms: tuple[int, ...] | Exponential = (0, 1000, 2000)

    def delay_ms_after(self, attempt: int) -> int:
        """The last delay repeats when there are more attempts than delays."""
        if isinstance(self.delays_ms, Exponential):
            return self.delays_ms.delay_ms_after(attempt, chance=random.random())
        return self.delays_ms[min(attempt, len(self.delays_ms)) - 1] if self.delays_ms else 0


@dataclass(frozen=True, slots=True)
class RetryIn:
    """Try again after a while."""

    delay_ms: int


@dataclass(frozen=True, slots=True)
class NoMore:
    """Give up; the reason is for a person."""

    reason: str


def attempt_number(retry_count: int, delivery_count: int) -> int:
    """Which attempt this delivery is.

    Each retry is an attempt. So is each delivery of the same entry from the third on: a first redelivery is forgiven,
    because a worker that dies takes innocent neighbours with it, and a worker that dies of *this* entry comes back to it.
    """
    return retry_count + 1 + (delivery_count - 2 if delivery_count > 2 else 0)


def count_after(attempt: int, *, retry_count: int) -> int:
    """The delivery count under which an entry that stays where it is has its next attempt; the reverse of `attempt_number`."""
    return attempt - retry_count + 2


def fence_token(*, entry_id: str, delivery_count: int) -> int:
    """Grows with each delivery: of one entry by its count, and a retry's entry has a later millisecond than the one it continues."""
    return int(entry_id.partition("-")[0]) * DELIVERIES_PER_ENTRY + min(delivery_count, DELIVERIES_PER_ENTRY - 1)


def next_step(error: BaseException, *, attempt: int, policy: RetryPolicy) -> RetryIn | NoMore:
    if isinstance(error, Reject):
        return NoMore(storable(f"rejected: {error.reason}", most=ERROR_CHARACTERS))
    if attempt >= policy.max_attempts:
        return NoMore(f"failed {attempt} times: {describe(error)}")
    if isinstance(error, Retry) and error.after_ms is not None:
        return RetryIn(error.after_ms)
    return RetryIn(policy.delay_ms_after(attempt))


def describe(error: BaseException) -> str:
    """The error's class and text, as something that can be stored: foreign code may raise texts that are no Unicode, or none."""
    try:
        text = str(error)
    except Exception:  # Its own __str__ may raise anything.
        text = "(its text cannot be shown)"
    return storable(f"{type(error).__name__}: {text}", most=ERROR_CHARACTERS)


def storable(text: str, *, most: int) -> str:
    """The end of the text, where errors say what they mean, with every character that UTF-8 has."""
    return text.encode("utf-8", "replace").decode()[-most:]
