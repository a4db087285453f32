"""Owns how much one batch may take: what the settings say, and half of that for each batch that was begun and never ended.

A batch too heavy for Spark's memory takes the JVM with it, and the next run would plan the same one for ever. So a file
remembers, over restarts, how many batches in a row have failed. It need not survive a power cut, and is not synced.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from analytics.settings import ArchiveSettings
from schemas.errors import StreamUnavailable

FILE_NAME = "archive.failures"
MOST_FAILURES = 16
# After a failure the caps grow back only slowly: each step that is too early costs a restart of Spark.
STEP_AFTER = 4


@dataclass(frozen=True, slots=True)
class Caps:
    """The most entries and bytes of one batch; both are about, and at least one entry is always taken."""

    entries: int
    bytes: int

    def after(self, failures: int) -> Caps:
        return Caps(max(1, self.entries >> failures), max(1, self.bytes >> failures))


@dataclass(slots=True)
class Failures:
    """How many batches in a row were begun and not ended, and how many have ended since."""

    path: Path
    count: int = 0
    ended: int = 0

    @classmethod
    def remembered(cls, *, home: Path, table: str = "") -> Failures:
        """Of one table, so that what is wrong with one does not slow down the others."""
        found = cls(home / "run" / (f"{FILE_NAME}.{table}" if table else FILE_NAME))
        with contextlib.suppress(OSError, ValueError):
            found.count = min(MOST_FAILURES, max(0, int(found.path.read_text())))
        return found

    def caps(self, settings: ArchiveSettings) -> Caps:
        return Caps(settings.max_batch_entries, settings.max_batch_bytes).after(self.count)

    @contextlib.contextmanager
    def counted(self) -> Iterator[None]:
        """Counts what happens inside as failed until it has ended; a log that went away is no failure of the batch."""
        before, ended = self.count, self.ended
        self._remember(before + 1)
        try:
            yield
        except StreamUnavailable:
            self._remember(before, ended=ended)
            raise
        if before and ended + 1 < STEP_AFTER:
            self._remember(before, ended=ended + 1)
        else:
            self._remember(max(0, before - 1))

    def _remember(self, count: int, *, ended: int = 0) -> None:
        self.count, self.ended = min(MOST_FAILURES, count), ended
        if count:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self.path.write_text(str(self.count))
        else:
            self.path.unlink(missing_ok=True)
