"""Owns what a processor raises to say what should become of its event."""

from __future__ import annotations


class Retry(Exception):
    """Try again, after `after_ms` instead of the policy's delay; counts as an attempt."""

    def __init__(self, reason: str = "", *, after_ms: int | None = None) -> None:
        super().__init__(reason or "the processor asked for a retry")
        self.after_ms = after_ms


class Reject(Exception):
    """Never try this event again: make it a dead letter at once."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason
