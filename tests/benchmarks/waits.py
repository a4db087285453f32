"""Owns how long single events waited: when each was due is in its body, and how long it waited goes into a file of eight bytes each.

Both sides are processes of one machine and read the same monotonic clock.
"""

from __future__ import annotations

import os
import struct
import time
from pathlib import Path

from tests.benchmarks.filling import BODY_BYTES

VARIABLE = "BENCH_WAITS"
_HEAD = b'{"due_ns": "'
_DIGITS = 20
_WAIT_NS = struct.Struct("=q")


def stamped_body(due_ns: int) -> bytes:
    """JSON of the size that all contenders get, which says when its event was due to be appended."""
    begin = _HEAD + b"%0*d" % (_DIGITS, due_ns) + b'", "ref": "'
    return begin + b"x" * (BODY_BYTES - len(begin) - 2) + b'"}'


def due_ns(body: bytes) -> int | None:
    """None for an event whose wait nobody asked for."""
    return int(body[len(_HEAD) : len(_HEAD) + _DIGITS]) if body.startswith(_HEAD) else None


class Waits:
    """A file that one process writes and another one reads, in the order in which the waits ended."""

    def __init__(self, path: Path) -> None:
        self._descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o600)

    @classmethod
    def of_this_process(cls) -> Waits:
        """The file that the runner named."""
        return cls(Path(os.environ[VARIABLE]))

    def note(self, body: bytes) -> None:
        """The wait of an event that runs now."""
        if (due := due_ns(body)) is not None:
            os.write(self._descriptor, _WAIT_NS.pack(time.monotonic_ns() - due))

    def count(self) -> int:
        return os.fstat(self._descriptor).st_size // _WAIT_NS.size

    def read_ms(self) -> list[float]:
        noted = os.pread(self._descriptor, self.count() * _WAIT_NS.size, 0)
        return [wait_ns / 1e6 for (wait_ns,) in _WAIT_NS.iter_unpack(noted)]
