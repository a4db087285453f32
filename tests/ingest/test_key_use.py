"""When a secret was used last."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from structlog.testing import CapturingLogger
from structlog.typing import FilteringBoundLogger

from ingest.key_use import KeyUse

NOON = datetime(2026, 1, 15, 12, 0, tzinfo=UTC)


def note(use: KeyUse, key_id: str, *, at: datetime, log: FilteringBoundLogger) -> None:
    use.note(key_id, tenant="demo", source="github", now=at, log=log)


def test_each_secret_is_remembered_with_its_last_use_and_written_down_once_an_hour() -> None:
    use, log = KeyUse(), CapturingLogger()

    for minutes in (0, 1, 59, 60, 61):
        note(use, "old", at=NOON + timedelta(minutes=minutes), log=log)
    note(use, "new", at=NOON, log=log)

    assert use.last_used == {("demo", "github", "old"): NOON + timedelta(minutes=61), ("demo", "github", "new"): NOON}
    assert [call.kwargs["key_id"] for call in log.calls] == ["old", "old", "new"]
