"""Controls of making room: each runs the very test of a contract on a script without one protection, and sees it fail."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from infra.running.embedded import EmbeddedServer
from infra.settings import LogSettings
from infra.streams.keys import Keys
from infra.streams.pipelining import Pipeline
from infra.streams.ranges import ArchiveLog
from infra.streams.stream import EventStream
from schemas.errors import StreamUnavailable
from tests.contracts import test_spill as spilling
from tests.faults.breaking import break_script
from tests.logs import archive_log as archive_log
from tests.logs import client as client
from tests.logs import keys as keys
from tests.logs import own_archive_log as own_archive_log
from tests.logs import own_client as own_client
from tests.logs import own_log as own_log
from tests.logs import own_pipeline as own_pipeline
from tests.logs import own_stream as own_stream
from tests.logs import pipeline as pipeline
from tests.logs import stream as stream
from tests.ports import free_port


@pytest.fixture
def log(log: LogSettings) -> LogSettings:
    return log.model_copy(update={"shards": 1})


@pytest.fixture
def own_server(tmp_path: Path) -> Iterator[EmbeddedServer]:
    server = EmbeddedServer(tmp_path / "own", free_port(), password="a-test-password")
    server.start()
    yield server
    server.kill()


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(("redis.call('HSET', owed_to[group.name], field, what)", ""), id="nothing is recorded"),
        pytest.param(
            ("local target = string.match(mark, '^[^|]+')", "local target = redis.call('XREVRANGE', stream, '+', '-')[1][1]"),
            id="beyond the archived mark",
        ),
        pytest.param(("redis.call('XACK', stream, group.name, unpack(ids))", ""), id="nothing is acked"),
    ],
)
@pytest.mark.control("B8")
async def test_a_spill_that_forgets_or_takes_too_much_is_noticed(
    monkeypatch: pytest.MonkeyPatch,
    stream: EventStream,
    pipeline: Pipeline,
    keys: Keys,
    client: Any,
    archive_log: ArchiveLog,
    change: tuple[str, str],
) -> None:
    break_script(monkeypatch, "spill", change)

    with pytest.raises(AssertionError):
        await spilling.test_a_group_is_owed_what_is_archived_and_not_settled_by_it(
            stream, pipeline, keys, client, archive_log, taken=4, settled=2, mark=6
        )


@pytest.mark.control("B8")
async def test_a_spill_that_adds_before_it_removes_fails_when_the_memory_is_full(
    monkeypatch: pytest.MonkeyPatch,
    own_stream: EventStream,
    own_pipeline: Pipeline,
    own_client: Any,
    own_log: LogSettings,
    own_archive_log: ArchiveLog,
) -> None:
    early = "local owed_to, worst = {}, tonumber(ARGV[2])"
    break_script(monkeypatch, "spill", (early, f"{early}\nredis.call('HSET', KEYS[3], 'too', 'early')"))

    with pytest.raises(StreamUnavailable, match="OOM"):
        await spilling.test_room_is_made_on_a_server_whose_memory_is_full(own_stream, own_pipeline, own_client, own_log, own_archive_log)
