"""Owns what a processor raises to say what should become of its event."""

from __future__ import annotations

import math
from collections.abc import Mapping


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


class SomeFailed(Exception):
    """Of a batch these events failed, each with its own error, and all others are done."""

    def __init__(self, errors: Mapping[str, BaseException]) -> None:
        """`errors` by event id; raises ValueError when there is none, since then nothing has failed."""
        if not errors or not all(isinstance(error, BaseException) for error in errors.values()):
            raise ValueError(f"SomeFailed({errors!r}) names no event with its error: give it a dictionary of event ids and exceptions")
        super().__init__(f"{len(errors)} of the batch failed")
        self.errors = dict(errors)


def _whole_ms(after_ms: float) -> int:
    if not math.isfinite(after_ms):
        raise ValueError(f"Retry(after_ms={after_ms}) is no time to wait for")
    return max(0, math.ceil(after_ms))
