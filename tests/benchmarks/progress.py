"""Owns the count that a process under measurement shows to the runner: eight bytes of a shared file, without a word to the server.

Only the standard library: the peers' processes import it, in a venv that has nothing of ours.
"""

from __future__ import annotations

import itertools
import mmap
import os
import struct
from pathlib import Path

VARIABLE = "BENCH_PROGRESS"
_COUNT = struct.Struct("=Q")


class Progress:
    """A number that one process raises and another one reads."""

    def __init__(self, path: Path) -> None:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
        try:
            os.ftruncate(descriptor, _COUNT.size)
            self._memory = mmap.mmap(descriptor, _COUNT.size)
        finally:
            os.close(descriptor)
        # Threads of one peer count together; taking the next number is atomic.
        self._numbers = itertools.count(1)

    @classmethod
    def of_this_process(cls) -> Progress:
        """The file that the runner named."""
        return cls(Path(os.environ[VARIABLE]))

    def one_more(self) -> None:
        self.reached(next(self._numbers))

    def reached(self, count: int) -> None:
        _COUNT.pack_into(self._memory, 0, count)

    def read(self) -> int:
        count: int = _COUNT.unpack_from(self._memory, 0)[0]
        return count
