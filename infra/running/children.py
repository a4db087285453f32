"""Owns child processes as the kernel sees them: they die with us, and none of their descendants is left behind."""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

KILL_DEADLINE_S = 5.0
PR_SET_PDEATHSIG = 1


def die_with(parent: int) -> Callable[[], None]:
    """For the child, before it becomes its program: the kernel kills it when we die, even by kill -9."""
    libc = ctypes.CDLL(None, use_errno=True)

    def prepare() -> None:
        libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        if os.getppid() != parent:  # We died before the line above.
            os._exit(1)

    return prepare


def has_ended(process: subprocess.Popen[bytes]) -> bool:
    """Does not reap: until then no new process can get this number, and its group can be signalled safely."""
    return os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT | os.WNOHANG) is not None


def reap_group(process: subprocess.Popen[bytes]) -> int:
    """Kills whatever is left of the child's session, such as a JVM, waits until it is gone, and returns the child's exit code."""
    # SIGKILL takes effect a moment later, and a member may fork while we look: repeat until nobody is left.
    # The deadline is for one that hangs in the kernel; it must not hold up the others for ever.
    deadline = time.monotonic() + KILL_DEADLINE_S
    while (members := session_members(process.pid)) and time.monotonic() < deadline:
        for pid in members:
            with suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.01)
    return process.wait()


def session_members(session: int) -> list[int]:
    """The living processes of a session; by session, not by group, because Spark's Python workers make groups of their own."""
    found = []
    for entry in os.listdir("/proc"):
        with suppress(OSError):
            if entry.isdigit():
                # After the name, which may hold anything: state, parent, group, session.
                state, _parent, _group, its_session = (Path("/proc") / entry / "stat").read_text().rpartition(")")[2].split()[:4]
                if int(its_session) == session and state not in "ZX":
                    found.append(int(entry))
    return found
