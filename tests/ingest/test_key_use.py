"""When a secret was used last."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from structlog.testing import CapturingLogger
from structlog.typing import FilteringBoundLogger

from infra.settings import LogSettings, TelemetrySettings
from infra.streams.connection import open_blocking
from infra.streams.keys import Keys
from infra.streams.ledger import read_last_used
from infra.streams.stream import EventStream
from infra.telemetry import Telemetry
from ingest.key_use import KeyUse
from schemas.errors import StreamUnavailable
from schemas.event import to_epoch_ms

NOON = datetime(2026, 1, 15, 12, 0, tzinfo=UTC)


def used_by(log: LogSettings, *, home: Path) -> dict[tuple[str, str, str], int]:
    with open_blocking(log, home=home) as client:
        return read_last_used(client, keys=Keys(log.prefix, log.shards))


def note(use: KeyUse, key_id: str, *, at: datetime, log: FilteringBoundLogger) -> None:
    use.note(key_id, tenant="demo", source="github", now=at, log=log)


def test_each_secret_is_remembered_with_its_last_use_and_written_down_once_an_hour() -> None:
    use, log = KeyUse(), CapturingLogger()

    for minutes in (0, 1, 59, 60, 61):
        note(use, "old", at=NOON + timedelta(minutes=minutes), log=log)
    note(use, "new", at=NOON, log=log)

    assert use.last_used == {("demo", "github", "old"): NOON + timedelta(minutes=61), ("demo", "github", "new"): NOON}
    assert [call.kwargs["key_id"] for call in log.calls] == ["old", "old", "new"]


async def test_the_last_use_of_each_secret_is_written_to_the_log(log: LogSettings, home: Path) -> None:
    use, stream = KeyUse(), EventStream.open(log, home=home)
    telemetry = Telemetry.start("test", TelemetrySettings(), home=home)

    async with use.running(stream, telemetry=telemetry):
        note(use, "old", at=NOON, log=telemetry.log)
        note(use, "new", at=NOON, log=telemetry.log)
        note(use, "new", at=NOON + timedelta(minutes=1), log=telemetry.log)

    await stream.close()
    telemetry.shutdown()
    assert used_by(log, home=home) == {
        ("demo", "github", "old"): to_epoch_ms(NOON),
        ("demo", "github", "new"): to_epoch_ms(NOON) + 60_000,
    }


async def test_what_the_log_did_not_take_is_written_with_the_next(log: LogSettings, home: Path) -> None:
    use, nobody, stream = KeyUse(), EventStream.open(LogSettings(url="redis://127.0.0.1:1/0"), home=home), EventStream.open(log, home=home)
    note(use, "old", at=NOON, log=CapturingLogger())

    with pytest.raises(StreamUnavailable):
        await use.write(nobody)
    await use.write(stream)

    await stream.close()
    assert used_by(log, home=home) == {("demo", "github", "old"): to_epoch_ms(NOON)}
