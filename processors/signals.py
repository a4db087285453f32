"""Owns what a processor raises to say what should become of its event."""

from __future__ import annotations

import math


class Retry(Exception):
    """Try again, after `after_ms` instead of the policy's delay; counts as an attempt."""

    def __init__(self, reason: str = "", *, after_ms: float | None = None) -> None:
        """Raises ValueError for a delay that is no number of milliseconds: the mistake is then the attempt's failure."""
        super().__init__(reason or "the processor asked for a retry")
        self.after_ms = None if after_ms is None else _whole_ms(after_ms)


class Reject(Exception):
    """Never try this event again: make it a dead letter at once."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


def _whole_ms(after_ms: float) -> int:
    if not math.isfinite(after_ms):
        raise ValueError(f"Retry(after_ms={after_ms}) is no time to wait for")
    return max(0, math.ceil(after_ms))
