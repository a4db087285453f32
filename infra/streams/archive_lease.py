"""Owns the lease of the archive: one process fills the tables of a log, wherever they are stored. Blocking; a thread renews it.

A lock file beside the tables works on one machine only; this one works for object stores too, and for two archives that would fill
different tables from one log. It is a short lease in the log: who dies leaves it within seconds, and who finds that another one holds it
stops before it commits or moves anything.
"""

from __future__ import annotations

import os
import socket
import threading
import time
from pathlib import Path
from types import TracebackType
from typing import Any

import redis

from infra.settings import LogSettings
from infra.streams.connection import open_blocking, translated
from infra.streams.keys import ARCHIVE_GROUP, Keys
from infra.streams.scripts import run_blocking
from schemas.errors import NotTheArchive, StreamUnavailable

LEASE_MS = 8000
ASK_EVERY_S = 2.5


class ArchiveLease:
    """Held for a block, or from `take` to `end`."""

    def __init__(self, client: redis.Redis, *, keys: Keys, lease_ms: int = LEASE_MS) -> None:
        self.name = f"{socket.gethostname()}:{os.getpid()}:{os.urandom(4).hex()}"
        self._client = client
        self._key = keys.lease(0, ARCHIVE_GROUP)
        self._lease_ms = lease_ms
        self._held_until = 0.0
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._renew, name="archive-lease", daemon=True)

    @classmethod
    def open(cls, log: LogSettings, *, home: Path) -> ArchiveLease:
        return cls(open_blocking(log, home=home), keys=Keys(log.prefix, log.shards))

    def __enter__(self) -> ArchiveLease:
        self.take()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.end()

    def take(self, *, patience_s: float = 1.5 * LEASE_MS / 1000) -> None:
        """Waits for one that died to be forgotten; raises NotTheArchive when another one lives, StreamUnavailable without a log."""
        deadline = time.monotonic() + patience_s
        while not self._hold():
            if time.monotonic() > deadline:
                raise self._refusal()
            time.sleep(0.1)
        self._thread.start()

    def check(self) -> None:
        """To be asked before each commit and each move; costs nothing while the lease is fresh. Raises as `take`."""
        if time.monotonic() >= self._held_until and not self._hold():
            raise self._refusal()

    def end(self) -> None:
        """Lets the next one begin at once; without a log the lease runs out by itself."""
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join(timeout=10)
        try:
            with translated():
                run_blocking(self._client, "hold", keys=[self._key], args=[self.name, 0])
        except StreamUnavailable:
            pass
        self._client.close()

    def _hold(self) -> bool:
        asked_at = time.monotonic()
        with translated():
            is_held = bool(run_blocking(self._client, "hold", keys=[self._key], args=[self.name, self._lease_ms]))
        self._held_until = asked_at + self._lease_ms / 1000 if is_held else 0.0
        return is_held

    def _renew(self) -> None:
        while not self._stop.wait(ASK_EVERY_S):
            try:
                self._hold()
            except StreamUnavailable:
                # The loop of the archive meets the same, says so, and asks again before it goes on.
                continue

    def _refusal(self) -> NotTheArchive:
        with translated():
            holder: Any = self._client.get(self._key)
        who = holder.decode(errors="replace") if holder else "one that has just ended"
        return NotTheArchive(f"another archive fills tables from this log ({who}): two would lose or repeat events; stop one of them")
