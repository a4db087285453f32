"""Owns a little life on a log: what leaves entries in every stream that the archive reads, through the real scripts."""

from __future__ import annotations

import asyncio
from pathlib import Path

from infra.settings import LogSettings
from infra.streams.connection import open_pipeline
from infra.streams.dead_letters import DeadLetters
from infra.streams.keys import Keys
from infra.streams.letter_filter import LetterFilter
from infra.streams.quarantine import DISCARDED, QuarantinedRequests
from infra.streams.settle import Ack
from infra.streams.stream import EventStream
from schemas.outcome import Ran
from tests.contracts.test_quarantine import a_refused_request
from tests.events import an_event
from tests.infra.streams.deliveries import GIVE_UP, read_all, reader_of, settle_as

OPEN = LetterFilter(state="open")


def live(log: LogSettings, *, home: Path, events: int = 4) -> None:
    """Every second event is acked and the others are given up; one letter is discarded; a refused request too; one id is an alias.

    So n events leave n / 2 outcomes and an alias, n / 2 letters and a decision, and a request and a decision.
    """
    asyncio.run(_live(log, home=home, events=events))
    _decide(log, home=home)


async def _live(log: LogSettings, *, home: Path, events: int) -> None:
    stream, pipeline, keys = EventStream.open(log, home=home), open_pipeline(log, home=home, wait_ms=1000), Keys(log.prefix, log.shards)
    reader = await reader_of(pipeline, keys)
    for _ in range(events):
        await stream.append(an_event())
    leases = await read_all(reader)
    acks = [Ack(Ran(lease.fields[b"id"].decode(), "m:f", 1, 1_700_000_000_000, 2.5)) for lease in leases]
    await settle_as(reader, pipeline, keys, *((lease, acks[at] if at % 2 else GIVE_UP) for at, lease in enumerate(leases)))
    await stream.alias(an_event(), first_id="the-first")
    await stream.quarantine(a_refused_request(), cap=1000, cap_bytes=10**6)
    await pipeline.close()
    await stream.close()


def _decide(log: LogSettings, *, home: Path) -> None:
    letters, requests = DeadLetters.open(log, home=home), QuarantinedRequests.open(log, home=home)
    assert letters.discard(next(letters.entries(OPEN)), by="ann@desk", because="a test") == DISCARDED
    assert requests.close_as(DISCARDED, next(requests.entries(OPEN)).id, by="ann@desk", because="a scan") == DISCARDED
    letters.close()
    requests.close()
