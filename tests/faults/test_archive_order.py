"""The group moves after the commit: killed in between, nothing is lost. The control moves first and loses."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from infra.running.embedded import EmbeddedServer, free_port
from infra.settings import LogSettings
from infra.streams.stream import EventStream
from tests.events import an_event
from tests.faults.archive_process import REAL, ArchiveProcess
from tests.faults.checker import Accepted, faults, rows_of

BROKEN = "tests.faults.broken.archive_moves_first"


@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    ("module", "is_faithful"),
    [
        pytest.param(REAL, True, id="real", marks=pytest.mark.fault("E1")),
        pytest.param(BROKEN, False, id="control", marks=pytest.mark.control("E1")),
    ],
)
def test_an_archive_killed_before_its_commit_loses_nothing_unless_it_moves_first(
    spark: SparkSession, tmp_path: Path, module: str, is_faithful: bool
) -> None:
    server = EmbeddedServer(tmp_path / "log", free_port(), password="a-test-password")
    server.start()
    try:
        archive = ArchiveProcess(tmp_path / "home", log_url=server.url)
        accepted = asyncio.run(append_many(LogSettings(url=server.url), home=archive.home, count=50))

        archive.run_until_killed(module, failpoint="archive.before_commit=kill")
        archive.drain(spark)

        assert (faults(accepted, rows=rows_of(archive.home)) == []) is is_faithful
    finally:
        server.stop()


async def append_many(log: LogSettings, *, home: Path, count: int) -> list[Accepted]:
    stream = EventStream.open(log, home=home)
    events = [an_event() for _ in range(count)]
    receipts = await asyncio.gather(*[stream.append(event) for event in events])
    await stream.close()
    return [Accepted(receipt.event_id, event.delivery_id, event.body_sha256) for receipt, event in zip(receipts, events, strict=True)]
