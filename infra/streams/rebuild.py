"""Owns building a stream anew, without the bytes of what was deleted from it: in steps, beside everybody who uses it. Blocking.

The server does nothing else during a step, so each is kept to some ten milliseconds. What is in work when the last one comes is carried
over by that one step, so there may not be too much of it; and for a while the log needs memory for the stream twice.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import redis

from infra.settings import LogSettings
from infra.streams.caps import weight_of
from infra.streams.scripts import Argument, run_blocking

AT_ONCE = 250
AT_ONCE_BYTES = 512 * 1024
MOST_IN_WORK = 5000
MOST_TRIES = 3
MOST_BUILT_AT_ONCE = 20_000
"""Of a stream in whose middle entries are deleted all the time, such as that of retries: there is no other way."""
KEPT_S = 600
NOT_BEGUN: tuple[Argument, ...] = ("", 0, 0, "0-0")


@dataclass(frozen=True, slots=True)
class Rebuilding:
    """One stream, and where its copy is made; raises the errors of redis-py."""

    client: redis.Redis
    stream: str
    copy: str
    replaced: str
    ledger: str
    log: LogSettings

    def run(self) -> str:
        """Returns when it was built anew, with an empty text; else with why it is left as it is."""
        if reason := self._why_no_room():
            return reason
        for _ in range(MOST_TRIES):
            status, reason = self._in_steps()
            if status != "changed":
                return reason
        status, *_ = self._step(NOT_BEGUN, entries=MOST_BUILT_AT_ONCE, size_bytes=1 << 40)
        if status == "rebuilt":
            return ""
        self.client.unlink(self.copy)
        return "entries of it are deleted all the time"

    def _in_steps(self) -> tuple[str, str]:
        state: Sequence[Argument] = NOT_BEGUN
        while True:
            status, *found = self._step(state, entries=AT_ONCE, size_bytes=AT_ONCE_BYTES)
            if status != "copied":
                return status, found[0].decode(errors="replace") if found else ""
            state = found

    def _step(self, state: Sequence[Argument], *, entries: int, size_bytes: int) -> tuple[str, *tuple[Any, ...]]:
        args = [*state, entries, size_bytes, MOST_IN_WORK, KEPT_S]
        status, *found = run_blocking(self.client, "rebuild", keys=[self.stream, self.copy, self.replaced], args=args)
        return (status.decode(), *found)

    def _why_no_room(self) -> str:
        """Above the hard cap nothing would be accepted any more."""
        weight = weight_of(run_blocking(self.client, "weigh", keys=[self.ledger, self.stream], args=[]), log=self.log)
        is_too_large = weight.hard_bytes is not None and weight.used_bytes + sum(weight.streams) > weight.hard_bytes
        return "the log has no memory for it twice" if is_too_large else ""
