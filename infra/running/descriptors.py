"""Owns how many connections a process may hold: no more than the files that it may open, less those that it needs for its work.

A server that runs out of files cannot answer any more: what connects then is reset. One that knows its limit says 503.
"""

from __future__ import annotations

import os
import resource
from pathlib import Path

# For what is opened later: ways to the log, files of a reload or a spool, requests to the ops port, and connections that are told 503.
RESERVED = 24


def room_for_connections(wanted: int) -> int:
    """How many of the wanted connections this process can hold; first lets it open as many files as the system allows it."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    return wanted if hard == resource.RLIM_INFINITY else connections_within(hard, open_files=_open_files(), wanted=wanted)


def connections_within(limit: int, *, open_files: int, wanted: int) -> int:
    """At least one, or there would be nothing to serve. Pure."""
    return max(1, min(wanted, limit - open_files - RESERVED))


def _open_files() -> int:
    try:
        return len(os.listdir(Path("/proc/self/fd")))
    except OSError:
        return RESERVED  # No such list on this system: a receiver that has just started has fewer.
