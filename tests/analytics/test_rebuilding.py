"""An event that comes back from the table is the event that was accepted."""

from __future__ import annotations

import hashlib
import struct
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa  # type: ignore[import-untyped]
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyspark.sql import DataFrame, SparkSession

from analytics.event_rows import record_batches
from analytics.rebuilding import ORDER, Place, Rebuilt, rebuilt, shard_of, to_entries
from analytics.transforms import to_events
from infra.streams.entries import EVENT_FIELDS, Entry, as_fields, decode, encode
from infra.streams.keys import Keys
from infra.streams.replay import packed
from schemas.event import AuthContext, Part, Priority, StreamEvent
from tests.events import an_event

NOW = datetime(2026, 3, 1, tzinfo=UTC)
TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=30)
HEADERS = st.dictionaries(st.text("abcdefghij-", min_size=1, max_size=10), TEXTS, max_size=4)
TIMES = st.datetimes(datetime(1990, 1, 1), datetime(2099, 1, 1), timezones=st.just(UTC))
BODIES = st.one_of(st.binary(max_size=200), st.sampled_from([b"", b"{}", b"null", b'{"a": 1e400}', "Zoë".encode(), b"\xff\x00"]))
AUTH = st.builds(
    AuthContext, scheme=TEXTS, key_id=TEXTS, signature_headers=HEADERS, signed_url=TEXTS, verified_at=TIMES, remote_address=TEXTS
)
PARTS = st.builds(
    Part,
    number=st.integers(1, 1000),
    of=st.integers(1, 1000),
    body_sha256=st.just("ab" * 32),
    before=st.sampled_from(["", "[", ",\n ", " \t\r\n,[]"]),
    after=st.sampled_from(["", "]", " ]\n"]),
)
CHANGES: Any = st.fixed_dictionaries(
    {
        "payload": BODIES, "event_type": TEXTS, "repository": TEXTS, "delivery_id": TEXTS, "key": TEXTS, "content_type": TEXTS,
        "headers": HEADERS, "auth_context": AUTH, "traceparent": TEXTS, "priority": st.sampled_from(Priority),
        "timestamp": TIMES.map(lambda time: time.replace(microsecond=time.microsecond // 1000 * 1000)),
        "part": st.none() | PARTS, "flags": st.lists(st.sampled_from(["schema_mismatch", "too_many_parts"]), max_size=2).map(tuple),
    }
)  # fmt: skip


def archived(spark: SparkSession, events: list[StreamEvent], *, stream: str = "0:default") -> DataFrame:
    """The rows that the archive makes of the events."""
    numbered = [
        as_fields([part if isinstance(part, bytes) else str(part).encode() for part in encode(event)])
        | {b"incarnation": b"a", b"sequence": str(number).encode(), b"recheck": b"0", b"conflict": b"0"}
        for number, event in enumerate(events, 1)
    ]
    entries = [Entry(f"{number}-0", fields) for number, fields in enumerate(numbered, 1)]
    raw = pa.Table.from_batches(list(record_batches(entries, stream=stream)))
    return to_events(spark.createDataFrame(raw), batch=1, archived_at=NOW)


def back(rows: DataFrame, *, shards: int = 4) -> list[Rebuilt]:
    entries = to_entries(rows, shard=shard_of(shards)).orderBy(*ORDER).toArrow()
    return [event for batch in entries.to_batches() for event in rebuilt(batch)]


def event_of(found: Rebuilt) -> StreamEvent:
    named = [part for pair in zip(EVENT_FIELDS, unpacked(found.packed), strict=True) for part in pair]
    flat = [part if isinstance(part, bytes) else str(part).encode() for part in (*named, *found.further)]
    return decode(as_fields(flat))


def unpacked(values: bytes) -> list[bytes]:
    found, at = [], 0
    while at < len(values):
        (length,) = struct.unpack_from("<I", values, at)
        found.append(values[at + 4 : at + 4 + length])
        at += 4 + length
    assert packed(found) == values
    return found


@settings(max_examples=6, deadline=None, suppress_health_check=list(HealthCheck))
@given(changes=st.lists(CHANGES, min_size=15, max_size=40))
def test_every_event_comes_back_as_it_was_and_belongs_to_its_shard(spark: SparkSession, changes: list[dict[str, Any]]) -> None:
    events = {event.id: event for event in (an_event(**change) for change in changes)}

    found = back(archived(spark, list(events.values())))

    assert {one.place.id: event_of(one) for one in found} == events
    keys = Keys("any:", 4)
    assert {one.place.id: one.shard for one in found} == {event.id: keys.shard_of(event) for event in events.values()}
    for one in found:
        assert hashlib.sha256(event_of(one).payload).hexdigest() == events[one.place.id].body_sha256


def test_the_order_is_by_time_of_receipt_and_then_by_position(spark: SparkSession) -> None:
    times = [NOW + timedelta(milliseconds=ms) for ms in (5, 5, 0, 5, *([7] * 8))]
    events = [an_event(timestamp=time) for time in times]

    found = back(archived(spark, events))

    expected = [events[index].id for index in (2, 0, 1, 3, *range(4, 12))]
    assert [one.place.id for one in found] == expected
    assert [one.place for one in found] == sorted(one.place for one in found)
    assert all(Place.parse(str(one.place)) == one.place for one in found)
