"""Owns when each secret was used last, so that an operator sees when an old one may go. In memory, per process."""

from __future__ import annotations

from datetime import datetime, timedelta

from structlog.typing import FilteringBoundLogger

HOUR = timedelta(hours=1)


class KeyUse:
    """(tenant, source, key id) to the time of the last request it verified; one log line per key and hour."""

    __slots__ = ("_written", "last_used")

    def __init__(self) -> None:
        self.last_used: dict[tuple[str, str, str], datetime] = {}
        self._written: dict[tuple[str, str, str], datetime] = {}

    def note(self, key_id: str, *, tenant: str, source: str, now: datetime, log: FilteringBoundLogger) -> None:
        key = (tenant, source, key_id)
        self.last_used[key] = now
        written = self._written.get(key)
        if written is None or now - written >= HOUR:
            self._written[key] = now
            log.info("secret in use", tenant=tenant, source=source, key_id=key_id)
