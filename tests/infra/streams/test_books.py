"""The books of each source: every term is counted for whom it belongs to."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from infra.clock import Clock
from infra.settings import LogSettings
from infra.streams import books
from infra.streams.books import SourceBooks, from_ledgers, in_spools, with_term
from infra.streams.keys import Keys
from infra.streams.overview import overview
from infra.streams.pipelining import Pipeline
from infra.streams.ranges import ArchiveLog
from infra.streams.stream import EventStream
from ingest.spool import Spool
from tests.events import an_event


@pytest.fixture
def log(log: LogSettings) -> LogSettings:
    return log.model_copy(update={"shards": 2})


def test_the_ledgers_of_all_shards_are_added_up() -> None:
    first = {b"accepted:a:x": b"5", b"rows:events": b"9", b"rows:events:a:x": b"4", b"erased:events:a:x": b"2", b"erased:events": b"2"}
    second = {
        b"accepted:a:x": b"3",
        b"accepted:b:x": b"1",
        b"scheduled:a:x": b"1",
        b"erased_scheduled:a:x": b"1",
        b"expired:events:a:x": b"1",
    }

    found = from_ledgers([first, second])

    assert found["a", "x"] == SourceBooks("a", "x", accepted=8, rows=4, scheduled=1, erased=3, erased_rows=2, expired=1)
    assert found["b", "x"] == SourceBooks("b", "x", accepted=1)
    assert (found["a", "x"].archived, found["a", "x"].missing, found["b", "x"].missing) == (1, 2, 1)


def test_what_is_in_spools_was_accepted_too() -> None:
    found = with_term({("a", "x"): SourceBooks("a", "x", accepted=5, rows=5)}, "in_spools", {("a", "x"): 2, ("b", "y"): 1})

    assert [(one.accepted, one.in_spools, one.missing) for one in found.values()] == [(7, 2, 0), (1, 1, 0)]


async def test_what_is_not_archived_is_counted_for_its_source(
    stream: EventStream, pipeline: Pipeline, keys: Keys, archive_log: ArchiveLog
) -> None:
    for tenant in ("a", "b"):
        await stream.append(an_event(tenant_id=tenant))
    archive_log.move({end.stream: end.last for end in archive_log.ends()})
    for tenant in ("a", "a", "b"):
        await stream.append(an_event(tenant_id=tenant))
    await stream.append(an_event(tenant_id="b"), deliver_at=datetime.now(UTC) + timedelta(hours=1))

    found = (await overview(pipeline, keys=keys)).books

    assert found is not None
    assert {one.tenant: (one.accepted, one.in_log, one.scheduled) for one in found.values()} == {"a": (3, 2, 0), "b": (3, 1, 1)}


async def test_nobody_counts_for_minutes(
    stream: EventStream, pipeline: Pipeline, keys: Keys, archive_log: ArchiveLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    archive_log.ends()
    for _ in range(3):
        await stream.append(an_event())
    monkeypatch.setattr(books, "MOST_COUNTED", 1)
    monkeypatch.setattr(books, "AT_ONCE", 1)

    assert (await overview(pipeline, keys=keys)).books is None


async def test_what_waits_in_a_spool_is_counted_for_its_source(home: Path) -> None:
    spool = Spool.hold(home, max_bytes=10**6, clock=Clock())
    spool.start()
    await spool.keep([an_event(tenant_id="a"), an_event(tenant_id="a")], shard=0)
    await spool.keep([an_event(tenant_id="b")], shard=1)
    await spool.close()

    assert in_spools(home) == Counter({("a", "github"): 2, ("b", "github"): 1})
