"""Refused requests are kept for their retention, and longer until they are archived."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from infra.settings import LogSettings
from infra.streams import janitor
from infra.streams.keys import Keys
from infra.streams.letter_filter import LetterFilter
from infra.streams.overview import overview
from infra.streams.pipelining import Pipeline
from infra.streams.quarantine import DISCARDED, QuarantinedRequests
from infra.streams.stream import EventStream
from tests.contracts.test_quarantine import CAPS, a_refused_request

WEEK_MS = 168 * 3_600_000


@pytest.fixture
def log(log: LogSettings) -> LogSettings:
    return log.model_copy(update={"shards": 1})


async def test_nothing_is_trimmed_that_is_not_archived_or_not_old_enough(
    stream: EventStream, pipeline: Pipeline, keys: Keys, client: Any
) -> None:
    for _ in range(3):
        await stream.quarantine(a_refused_request(), **CAPS)
    assert await janitor.trim_quarantine(pipeline, keys=keys, retention_ms=-WEEK_MS) == 0  # no archive has ever run

    ids = [entry_id for entry_id, _ in client.xrange(keys.quarantine(0))]
    client.xgroup_create(keys.quarantine(0), "archive", ids[1])

    assert await janitor.trim_quarantine(pipeline, keys=keys, retention_ms=WEEK_MS) == 0
    assert await janitor.trim_quarantine(pipeline, keys=keys, retention_ms=-WEEK_MS) == 2
    assert [entry_id for entry_id, _ in client.xrange(keys.quarantine(0))] == ids[2:]


async def test_what_is_trimmed_is_no_longer_open_makes_room_and_leaves_no_state_behind(
    stream: EventStream, pipeline: Pipeline, keys: Keys, client: Any, log: LogSettings, home: Path
) -> None:
    for _ in range(3):
        await stream.quarantine(a_refused_request(), **CAPS)
    requests = QuarantinedRequests.open(log, home=home)
    discarded, half_way, _ = requests.entries(LetterFilter())
    requests.close_as(DISCARDED, discarded.id, by="me@here", because="no")
    requests.begin_release(half_way.id, by="me@here")
    requests.close()
    client.xgroup_create(keys.quarantine(0), "archive", "$")
    before = (await overview(pipeline, keys=keys)).quarantined

    removed = await janitor.trim_quarantine(pipeline, keys=keys, retention_ms=-WEEK_MS)

    assert (before, removed) == (2, 4)  # three requests, one record
    assert (await overview(pipeline, keys=keys)).quarantined == 0
    assert client.hget(keys.ledger(0), "quarantine_bytes:demo:github") == b"0"
    assert client.exists(keys.quarantine_state(0)) == 0
