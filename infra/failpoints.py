"""Owns failpoints: named places where a test lets the process die.

    HOOKLAKE_FAILPOINT=archive.before_move=kill        kill -9 at that place
    HOOKLAKE_FAILPOINT=archive.before_move=kill@3      the third time it is reached

Each place is named where it is reached; without the variable, reaching one does nothing.

    receiver.before_append, .before_answer                            a receiver, before the log or the spool is asked, and after
    spool.before_settle                                               a receiver that empties a spool, once the log has a batch of it
    worker.after_read, .before_run, .before_settle, .after_settle     a child of a worker, around each of its steps
    requeue.before, .after, discard.before, .after                    `hooklake dead-letters`, around each letter
    decide_quarantined.before, .after                                 `hooklake quarantine`, around each decision
    archive.before_plan, .planned, .before_commit, .before_read_back, .before_sync, .before_move, .before_trim, .after_trim
"""

from __future__ import annotations

import functools
import os
import re
import signal

from infra.settings import environment_value
from schemas.errors import ConfigError

VARIABLE = "HOOKLAKE_FAILPOINT"
_FORM = re.compile(r"(?P<name>[a-z_.]+)=kill(?:@(?P<time>[1-9][0-9]*))?")


class Failpoint:
    """One armed place; counts how often it is reached."""

    def __init__(self, name: str, *, time: int) -> None:
        self.name = name
        self._left = time

    def is_due(self, name: str) -> bool:
        """Counts, and is true once: when `name` is reached for the chosen time."""
        if name != self.name:
            return False
        self._left -= 1
        return self._left == 0


def parse(text: str) -> Failpoint | None:
    """None for an empty text; raises ConfigError for one that arms nothing."""
    if not text:
        return None
    found = _FORM.fullmatch(text)
    if found is None:
        raise ConfigError(f"{VARIABLE}={text} arms no failpoint: write name=kill or name=kill@3")
    return Failpoint(found["name"], time=int(found["time"] or 1))


def reach(name: str) -> None:
    """Dies here when this is the armed failpoint."""
    armed = _armed()
    if armed is not None and armed.is_due(name):
        os.kill(os.getpid(), signal.SIGKILL)


@functools.cache
def _armed() -> Failpoint | None:
    # Read once per process: the count must survive from one reach to the next.
    return parse(environment_value(VARIABLE))
