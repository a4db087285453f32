"""A refused request is kept aside within its source's caps, and decided about once."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from infra.clock import Clock, EventIds
from infra.settings import LogSettings
from infra.streams.keys import Keys
from infra.streams.letter_filter import LetterFilter
from infra.streams.quarantine import BEGUN, DISCARDED, RELEASED, RELEASING, QuarantinedRequests
from infra.streams.stream import EventStream
from schemas.quarantined import QuarantinedRequest

EVERYTHING = LetterFilter()
CAPS = {"cap": 1000, "cap_bytes": 10**6}
ids = EventIds(Clock())


def a_refused_request(**changes: Any) -> QuarantinedRequest:
    described = {
        "event_id": ids.mint(),
        "tenant_id": "demo",
        "source": "github",
        "code": "bad_signature",
        "reason": "no secret made it",
        "received_at": datetime(2026, 11, 1, 12, tzinfo=UTC),
        "headers": {"x-hub-signature-256": "sha256=00", "x-odd": "\xff"},
        "removed_headers": ("cookie",),
        "repeated_headers": ("x-odd",),
        "body": b"\x00\xff{}",
    }
    return QuarantinedRequest.model_validate(described | changes)


@pytest.fixture
def requests(log: LogSettings, home: Path) -> Iterator[QuarantinedRequests]:
    opened = QuarantinedRequests.open(log, home=home)
    yield opened
    opened.close()


async def test_a_refused_request_comes_back_as_it_was_kept(stream: EventStream, requests: QuarantinedRequests) -> None:
    request = a_refused_request()

    assert await stream.quarantine(request, **CAPS)

    (found,) = requests.entries(EVERYTHING)
    assert found == request.model_copy(update={"id": found.id})
    assert requests.find(found.id) == requests.find(request.event_id) == [found]


@pytest.mark.fault("QUARANTINE")
async def test_at_most_one_decision_is_made(stream: EventStream, requests: QuarantinedRequests, keys: Keys, client: Any) -> None:
    request = a_refused_request()
    await stream.quarantine(request, **CAPS)
    (found,) = requests.entries(EVERYTHING)

    first = requests.close_as(RELEASED, found.id, by="me@here", event_id=request.event_id)
    others = [requests.close_as(state, found.id, by="you@there", because="no") for state in (RELEASED, DISCARDED)]

    (decided,) = requests.find(found.id)
    assert (first, others) == (RELEASED, ["already", RELEASED])
    assert (decided.state, decided.decided_by, decided.body) == (RELEASED, "me@here", request.body)
    shard = keys.shard_for(request.event_id)
    (_, kept), (_, record) = client.xrange(keys.quarantine(shard))
    assert (kept[b"sequence"], record[b"sequence"], record[b"event_id"]) == (b"1", b"2", request.event_id.encode())
    assert client.hmget(keys.ledger(shard), "quarantined:demo:github", "decided:demo:github", "quarantine_bytes:demo:github") == [
        b"1",
        b"1",
        b"0",
    ]


@pytest.mark.fault("QUARANTINE")
async def test_what_is_about_to_be_appended_is_not_discarded_and_what_was_discarded_not_appended(
    stream: EventStream, requests: QuarantinedRequests, keys: Keys, client: Any
) -> None:
    for _ in range(2):
        await stream.quarantine(a_refused_request(), **CAPS)
    first, second = requests.entries(EVERYTHING)

    begun = [requests.begin_release(first.id, by="me@here") for _ in range(2)]
    too_late = requests.close_as(DISCARDED, first.id, by="you@there", because="no")
    (still,) = requests.find(first.id)
    released = requests.close_as(RELEASED, first.id, by="me@here", event_id=first.event_id)
    requests.close_as(DISCARDED, second.id, by="you@there", because="no")

    assert (begun, too_late, still.state, released) == ([BEGUN, BEGUN], RELEASING, "open", RELEASED)
    assert [requests.begin_release(name, by="me@here") for name in (first.id, second.id)] == ["already", DISCARDED]
    states = [field for shard in keys.all_shards() for field in client.hkeys(keys.quarantine_state(shard))]
    assert sorted(states) == sorted(request.id.partition("-")[2].encode() for request in (first, second))


async def test_a_request_that_is_not_there_cannot_be_decided_about(requests: QuarantinedRequests) -> None:
    assert requests.close_as(DISCARDED, "0-1-1", by="me", because="no") == "gone"
    assert requests.begin_release("0-1-1", by="me") == "gone"


@pytest.mark.fault("QUARANTINE")
async def test_a_source_has_no_more_than_its_cap_and_what_is_dropped_is_counted(
    stream: EventStream, requests: QuarantinedRequests, keys: Keys, client: Any
) -> None:
    kept = [await stream.quarantine(a_refused_request(), cap=8, cap_bytes=10**6) for _ in range(60)]
    other = await stream.quarantine(a_refused_request(source="other"), cap=8, cap_bytes=10**6)

    assert (sum(kept), other) == (8, True)
    assert len(list(requests.entries(EVERYTHING))) == 9
    unkept = [client.hget(keys.ledger(shard), "unkept:demo:github") or 0 for shard in keys.all_shards()]
    assert sum(map(int, unkept)) == 60 - 8


async def test_bytes_are_capped_too_and_a_decision_makes_room(stream: EventStream, requests: QuarantinedRequests, keys: Keys) -> None:
    same_shard = (request for _ in itertools.count() if keys.shard_for((request := a_refused_request(body=b"x" * 600)).event_id) == 0)
    caps = {"cap": 1000, "cap_bytes": 1000 * keys.shards}
    assert [await stream.quarantine(next(same_shard), **caps) for _ in range(2)] == [True, False]

    (found,) = requests.entries(EVERYTHING)
    requests.close_as(DISCARDED, found.id, by="me", because="no")

    assert await stream.quarantine(next(same_shard), **caps)
    assert [request.state for request in requests.entries(EVERYTHING)] == ["open", DISCARDED]
