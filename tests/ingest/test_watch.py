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
from schemas.errors import ConfigError, StreamUnavailable


@pytest.fixture
async def watch(home: Path, log: LogSettings, telemetry: Telemetry) -> AsyncIterator[LogWatch]:
    stream = EventStream.open(log, home=home)
    yield LogWatch(log, home=home, stream=stream, telemetry=telemetry)
    await stream.close()


async def test_a_log_that_is_away_when_it_is_looked_at_is_not_ready(watch: LogWatch, monkeypatch: pytest.MonkeyPatch) -> None:
    await watch._step()
    was_ready = watch.is_ready

    def is_away(*_: object, **__: object) -> None:
        raise StreamUnavailable("the log cannot be reached")

    monkeypatch.setattr("ingest.watch.open_blocking", is_away)
    monkeypatch.setattr(watch, "_looked_at", float("-inf"))
    await watch._stream.close()
    monkeypatch.setattr(type(watch._stream._lanes.first), "_dial", is_away)
    with pytest.raises(StreamUnavailable):
        await watch._step()

    assert (was_ready, watch.is_ready) == (True, False)


async def test_a_log_that_was_found_unfit_is_not_believed_on_the_same_connection(watch: LogWatch, monkeypatch: pytest.MonkeyPatch) -> None:
    await watch._step()
    await watch._step()  # The first one has made the connection.
    was_proven = watch.is_proven

    def is_unfit(*_: object, **__: object) -> None:
        raise ConfigError("its appendfsync is everysec")

    monkeypatch.setattr("ingest.watch.refuse_unfit", is_unfit)
    with pytest.raises(StreamUnavailable):
        watch.look()

    assert (was_proven, watch.is_proven) == (True, False)
    with pytest.raises(StreamUnavailable):
        await watch.prove()


async def test_an_outdated_server_is_told_once_however_often_it_is_looked_at(
    watch: LogWatch, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(probe.MENDED, "valkey", ((999, 0, 0),))

    for _ in range(3):
        watch.look()

    assert capsys.readouterr().err.count("log server outdated") == 1
