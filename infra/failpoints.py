"""Owns failpoints: named places where a test lets a process die.

    HOOKLAKE_FAILPOINT=archive.before_move=kill        kill -9 at that place
    HOOKLAKE_FAILPOINT=archive.before_move=kill@3      the third time it is reached
    HOOKLAKE_FAILPOINT=archive.mid_read=kill_jvm       somebody else of the archive's family, see below
    HOOKLAKE_FAILPOINT=archive.mid_read=kill:FILE      once in all processes together: of whoever makes the FILE

Each place is named where it is reached; without the variable, reaching one does nothing.

    receiver.before_append, .before_answer                            a receiver, before the log or the spool is asked, and after
    spool.before_settle                                               a receiver that empties a spool, once the log has a batch of it
    worker.after_read, .before_run, .before_settle, .after_settle     a child of a worker, around each of its steps
    requeue.before, .after, discard.before, .after                    `hooklake dead-letters`, around each letter
    begin_release.before, .after                                      `hooklake quarantine release`, around noting that it appends
    decide_quarantined.before, .after                                 `hooklake quarantine`, around each decision
    replay.before_append, .after_append                               `hooklake replay`, around each call that hands events to a group
    replay.before_group, .after_group                                 the same, around making a group that begins with the history
    refill.before_append, .after_append                               the archive, around each call that gives back what is owed
    request.before_answer                                             the archive, once it has done what it was asked for
    upkeep.before_compaction, .before_sync, .before_forgetting        the archive, around each step of looking after a table
    change.before_read_back, .before_sync                             the archive, around a commit that changes rows
    erase.before_log, .before_rows, .before_gold, .before_events, .before_rewrite, .before_bytes, .before_record
                                                                      the archive, around each step of an erasure
    archive.before_plan, .planned, .before_commit, .before_read_back, .before_sync, .before_move, .between_moves, .before_trim, .after_trim
    archive.mid_read, .mid_write       where Spark reads the log, before the first rows are handed over, and when some are being written
    gold.before_commit, .before_read_back, .before_sync, .after_sync  the archive, around each step of a refresh of a gold table

The archive is a family: a Python process, the JVM that it started (on a cluster the driver's, with executors' JVMs beneath it), and
Python processes that read for it, beneath a JVM each. `archive.mid_read` and `.mid_write` are reached in one of those, so `kill`
takes the reader there; `kill_jvm` takes the nearest JVM (above a reader its executor's, beneath the archive the driver's),
`kill_archive` the Python process of the archive. A reader that was killed is replaced by another, which counts anew: give a FILE.
"""

from __future__ import annotations

import functools
import os
import re
import signal
from pathlib import Path

from infra.settings import environment_value
from schemas.errors import ConfigError

VARIABLE = "HOOKLAKE_FAILPOINT"
_FORM = re.compile(r"(?P<name>[a-z_.]+)=(?P<whom>kill|kill_jvm|kill_archive)(?:@(?P<time>[1-9][0-9]*))?(?::(?P<file>.+))?")


class Failpoint:
    """One armed place; counts how often it is reached."""

    def __init__(self, name: str, *, time: int, whom: str = "kill", file: str = "") -> None:
        self.name = name
        self.whom = whom
        self._left = time
        self._file = file

    def is_due(self, name: str) -> bool:
        """Counts, and is true once: when `name` is reached for the chosen time."""
        if name != self.name:
            return False
        self._left -= 1
        return self._left == 0 and self._is_first()

    def _is_first(self) -> bool:
        if not self._file:
            return True
        try:
            Path(self._file).touch(exist_ok=False)
        except FileExistsError:
            return False
        return True


def parse(text: str) -> Failpoint | None:
    """None for an empty text; raises ConfigError for one that arms nothing."""
    if not text:
        return None
    found = _FORM.fullmatch(text)
    if found is None:
        raise ConfigError(f"{VARIABLE}={text} arms no failpoint: write name=kill or name=kill@3")
    return Failpoint(found["name"], time=int(found["time"] or 1), whom=found["whom"], file=found["file"] or "")


def reach(name: str) -> None:
    """Dies here when this is the armed failpoint, or lets another one of the family die and goes on."""
    armed = _armed()
    if armed is not None and armed.is_due(name):
        os.kill(victim(armed.whom, of=os.getpid()), signal.SIGKILL)


def victim(whom: str, *, of: int) -> int:
    """The process that is meant, seen from one of the family."""
    above = [of, *_ancestors(of)]
    if whom == "kill_jvm":
        return next((pid for pid in [*above, *_children(of)] if _name(pid) == "java"), of)
    if whom == "kill_archive":
        # Above the highest JVM; in the archive itself there is none.
        jvms = [place for place, pid in enumerate(above) if _name(pid) == "java"]
        return above[jvms[-1] + 1] if jvms else of
    return of


def _ancestors(pid: int) -> list[int]:
    found: list[int] = []
    while (pid := _parent(pid)) > 1:
        found.append(pid)
    return found


def _parent(pid: int) -> int:
    """0 for a process that is no more."""
    try:
        # After the name, which may have spaces and brackets of its own, stand the state and the parent.
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    except (FileNotFoundError, ProcessLookupError):
        return 0


def _children(pid: int) -> list[int]:
    # The kernel's own list of children leaves some out while others end.
    return [child for child in map(int, filter(str.isdecimal, os.listdir("/proc"))) if _parent(child) == pid]


def _name(pid: int) -> str:
    return Path(f"/proc/{pid}/comm").read_text().strip()


@functools.cache
def _armed() -> Failpoint | None:
    # Read once per process: the count must survive from one reach to the next.
    return parse(environment_value(VARIABLE))
