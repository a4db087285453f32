"""Owns the circuit of each processor: when everything fails, nothing more is tried for a while.

An outage downstream fails every event alike. Trying them all would only use up their attempts and fill the dead letters; so
after a number of failures in a row the circuit opens, and deliveries of that processor wait, uncharged. From time to time one is
let through; when it succeeds the circuit closes, when it fails the circuit stays open for twice as long. A `Reject` is a
verdict about one event, not a failure of the processor.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from processors.signals import Reject

LONGEST_FACTOR = 16
# How soon to look again while somebody else's probe is under way.
PROBING_S = 0.05


@dataclass(slots=True)
class Circuit:
    """One processor's; pure but for its own state. Times are readings of the monotonic clock."""

    failures_to_open: int
    open_s: float
    failures: int = 0
    _open_until: float = 0.0
    _openings: int = 0
    _is_probing: bool = field(default=False)

    @property
    def is_open(self) -> bool:
        return self._openings > 0

    def wait_s(self, *, now: float) -> float:
        """0 when an attempt may begin, which then must be reported; else how long to wait before asking again."""
        if not self.is_open:
            return 0.0
        if now < self._open_until:
            return self._open_until - now
        if self._is_probing:
            return PROBING_S
        self._is_probing = True
        return 0.0

    def succeeded(self) -> bool:
        """True when this closed the circuit."""
        was_open = self.is_open
        self.failures, self._openings, self._is_probing = 0, 0, False
        return was_open

    def failed(self, *, now: float) -> bool:
        """True when this opened the circuit, or kept it open for longer."""
        self.failures += 1
        is_first = not self.is_open
        if not self.failures_to_open or self.failures < self.failures_to_open or (not is_first and not self._is_probing):
            return False
        self._open_until = now + self.open_s * min(2**self._openings, LONGEST_FACTOR)
        self._openings += 1
        self._is_probing = False
        return is_first

    def pass_by(self) -> None:
        """An attempt that may begin did not: if it was to be the probe, another one is."""
        self._is_probing = False

    def report(self, error: BaseException | None, *, now: float) -> str:
        """What to say about it, if anything: `opened` or `closed`."""
        if error is None or isinstance(error, Reject):
            return "closed" if self.succeeded() else ""
        return "opened" if self.failed(now=now) else ""
