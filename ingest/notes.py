"""Owns the log lines about requests that were not accepted: enough to find a cause, never a flood."""

from __future__ import annotations

from collections import Counter

from structlog.typing import FilteringBoundLogger

from infra.clock import Clock
from schemas.errors import HooklakeError, Refused

LINES_PER_SECOND = 5


class Notes:
    """Writes the first few lines of every second and error code; the rest is counted into the next one."""

    def __init__(self, log: FilteringBoundLogger, *, clock: Clock) -> None:
        self._log = log
        self._clock = clock
        self._second = 0
        self._written: Counter[str] = Counter()
        self._unwritten: Counter[str] = Counter()

    def refused(self, error: HooklakeError, *, path: str, remote_address: str) -> None:
        """`reason` is for us alone: the sender is told less. Neither headers nor bodies are ever written."""
        if not self._may_write(error.code):
            return
        write = self._log.info if isinstance(error, Refused) else self._log.warning
        unwritten = self._unwritten.pop(error.code, 0)
        write(
            "request refused",
            code=error.code,
            reason=str(error),
            path=path[:200],
            remote_address=remote_address,
            **({"trace_id": error.trace_id} if error.trace_id else {}),
            **({"unwritten_lines": unwritten} if unwritten else {}),
        )

    def failed(self, error: BaseException, *, path: str) -> None:
        """For what nobody expected; with its traceback."""
        if self._may_write("unexpected"):
            self._log.error("the receiver failed", path=path[:200], exc_info=error)

    def _may_write(self, code: str) -> bool:
        second = int(self._clock.monotonic())
        if second != self._second:
            self._second = second
            self._written.clear()
        self._written[code] += 1
        if self._written[code] <= LINES_PER_SECOND:
            return True
        self._unwritten[code] += 1
        return False
