"""The log's house is kept where there is no worker: by a thread of the archive."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from infra.running.housekeeper import Housekeeper
from infra.running.initialise import initialise
from infra.settings import LogSettings, load_settings
from infra.streams import groups
from infra.streams.connection import open_pipeline
from infra.streams.keys import Keys
from infra.streams.ranges import ArchiveLog
from infra.streams.settle import Ack, RetryLater
from infra.streams.stream import EventStream
from infra.telemetry import Telemetry
from tests.events import an_event
from tests.infra.running.processes import until
from tests.infra.streams.deliveries import make_due, read_all, reader_of, settle_as
from tests.infra.streams.raw import open_raw


async def test_an_archive_without_workers_promotes_trims_and_makes_room(log: LogSettings, home: Path, monkeypatch: Any) -> None:
    initialise(home)
    for name, value in {"URL": log.url, "PREFIX": log.prefix, "SOFT_CAP": "1KiB", "HARD_CAP": "1GiB"}.items():
        monkeypatch.setenv(f"HOOKLAKE_LOG__{name}", value)
    settings, keys, client = load_settings(home), Keys(log.prefix, log.shards), open_raw(log, home=home)
    stream, pipeline, archive = EventStream.open(log, home=home), open_pipeline(log, home=home), ArchiveLog.open(log, home=home)
    await groups.declare(pipeline, keys=keys, group="left")
    reader = await reader_of(pipeline, keys)
    for _ in range(20):
        await stream.append(an_event())
    first, *rest = await read_all(reader)
    await settle_as(reader, pipeline, keys, (first, RetryLater(3_600_000, 1)), *((lease, Ack()) for lease in rest))
    archive.move({end.stream: end.last for end in archive.ends()})
    make_due(client, keys.delayed(first.shard))
    telemetry = Telemetry.start("test", settings.telemetry, home=home)

    with Housekeeper(settings, telemetry=telemetry):
        until(lambda: client.xlen(keys.retry(first.shard, "g")) == 1, what="what was due is handed out")
        until(lambda: entries(client, keys) == 0, what="the log is trimmed, over the head of a group that nobody reads")
        assert client.exists(keys.housekeeper())

    assert not client.exists(keys.housekeeper())
    assert sum(int(client.hget(keys.ledger(shard), "owed:left") or 0) for shard in keys.all_shards()) == 20
    telemetry.shutdown()
    archive.close()
    client.close()
    await stream.close()
    await pipeline.close()


def entries(client: Any, keys: Keys) -> int:
    return sum(client.xlen(stream) for shard in keys.all_shards() for stream in keys.event_streams(shard))
