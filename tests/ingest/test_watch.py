"""What a receiver says of its log, which it looks at again and again."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from infra.settings import LogSettings
from infra.streams import probe
from infra.streams.stream import EventStream
from infra.telemetry import Telemetry
from ingest.watch import LogWatch


@pytest.fixture
async def watch(home: Path, log: LogSettings, telemetry: Telemetry) -> AsyncIterator[LogWatch]:
    stream = EventStream.open(log, home=home)
    yield LogWatch(log, home=home, stream=stream, telemetry=telemetry)
    await stream.close()


async def test_an_outdated_server_is_told_once_however_often_it_is_looked_at(
    watch: LogWatch, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(probe.MENDED, "valkey", ((999, 0, 0),))

    for _ in range(3):
        watch.look()

    assert capsys.readouterr().err.count("log server outdated") == 1
