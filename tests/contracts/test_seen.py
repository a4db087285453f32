"""A delivery id is remembered compactly, and found again however many others are."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import pytest

from infra.clock import Clock
from infra.running.embedded import EmbeddedServer
from infra.settings import LogSettings
from infra.streams.entries import EVENT_FIELDS
from infra.streams.keys import Keys
from infra.streams.positions import Position, StreamName
from infra.streams.ranges import ArchiveLog
from infra.streams.scripts import script
from infra.streams.seen import MARKER_BYTES, SeenWindow, bucket_of, marker_of
from infra.streams.stream import EventStream
from schemas.event import StreamEvent
from schemas.receipt import Receipt
from tests.contracts.servers import ServerKind
from tests.events import an_event
from tests.infra.streams.raw import open_raw

MOST_BYTES = 80
WINDOW = SeenWindow.parse("80h")
NOW_MS = 1_700_000_000_000


def buckets_of(event: StreamEvent, keys: Keys) -> list[str]:
    """Where the event is remembered: in the first of these that is not full."""
    marker = marker_of(event)
    (root, *_) = WINDOW.keys(keys, shard=keys.shard_of(event), marker=marker, now_ms=NOW_MS)
    one, two = marker[4] % 4, marker[5] % 4
    return [root, f"{root}.{one}", f"{root}.{one}{two}"]


def fill(client: Any, buckets: list[str]) -> None:
    for bucket in buckets:
        client.hset(bucket, mapping={f"marker {n}": "record" for n in range(120 - client.hlen(bucket))})


@pytest.fixture
def clock() -> Clock:
    return Clock(wall_ns=lambda: NOW_MS * 1_000_000)


@pytest.mark.parametrize("full", [0, 1, 2])
async def test_a_delivery_is_found_behind_full_buckets(
    log: LogSettings, home: Path, clock: Clock, client: Any, keys: Keys, full: int
) -> None:
    stream = EventStream.open(log, home=home, clock=clock)
    first, other = an_event(delivery_id="d1"), an_event(delivery_id="d1", payload=b"another body")
    fill(client, buckets_of(first, keys)[:full])

    receipts = [await stream.append(event) for event in (first, other, first, other)]

    await stream.close()
    assert [(receipt.duplicate, receipt.conflict) for receipt in receipts] == [(False, False), (False, True), (True, False), (True, False)]
    bucket = buckets_of(first, keys)[full]
    assert client.hlen(bucket) == 2
    assert WINDOW.ttl_s - 60 <= client.ttl(bucket) <= WINDOW.ttl_s


async def test_a_delivery_is_found_in_a_bucket_that_became_full_since(
    log: LogSettings, home: Path, clock: Clock, client: Any, keys: Keys
) -> None:
    stream = EventStream.open(log, home=home, clock=clock)
    event = an_event(delivery_id="d1")
    await stream.append(event)
    fill(client, buckets_of(event, keys)[:2])

    again = await stream.append(event)

    await stream.close()
    assert again.duplicate


async def test_a_delivery_behind_a_full_bucket_is_found_when_later_periods_have_full_ones_too(
    log: LogSettings, home: Path, client: Any, keys: Keys
) -> None:
    event, receipts = an_event(delivery_id="d1"), []
    shard, marker = keys.shard_of(event), marker_of(event)
    for age in range(4):
        now_ms = NOW_MS + age * WINDOW.period_ms
        fill(client, WINDOW.keys(keys, shard=shard, marker=marker, now_ms=now_ms)[:1])
        stream = EventStream.open(log, home=home, clock=Clock(wall_ns=lambda now_ms=now_ms: now_ms * 1_000_000))  # type: ignore[misc]
        receipts += [await stream.append(event), await stream.append(an_event(delivery_id="d1", payload=f"{age}".encode()))]
        await stream.close()

    assert [receipt.duplicate for receipt in receipts] == [False, False, True, False, True, False, True, False]
    assert {receipt.event_id for receipt in receipts[::2]} == {event.id}


async def test_a_record_whose_entry_was_lost_is_not_believed_again_when_the_archive_passes_its_place(
    log: LogSettings, home: Path, clock: Clock, client: Any, keys: Keys
) -> None:
    stream = EventStream.open(log, home=home, clock=clock)
    lost, kept = an_event(delivery_id="d1"), an_event(delivery_id="d1")
    first = await stream.append(lost)
    fill(client, buckets_of(lost, keys)[:1])
    shard = keys.shard_of(lost)
    client.xdel(keys.events(shard, "default"), first.entry_id)

    second = await stream.append(kept)
    archive_log = ArchiveLog.open(log, home=home)
    archive_log.move({StreamName(shard, "default"): Position(second.incarnation, second.entry_id, second.sequence)})
    archive_log.close()
    third = await stream.append(kept)

    await stream.close()
    assert (second.duplicate, third.duplicate, third.event_id) == (False, True, kept.id)


def at(now_ms: int, *, log: LogSettings, home: Path) -> EventStream:
    """The log as a receiver sees it whose clock says so."""
    return EventStream.open(log, home=home, clock=Clock(wall_ns=lambda: now_ms * 1_000_000))


async def appended(stream: EventStream, event: StreamEvent) -> Receipt:
    receipt = await stream.append(event)
    await stream.close()
    return receipt


async def test_a_receiver_whose_clock_is_wrong_makes_nobody_else_forget(log: LogSettings, home: Path, keys: Keys) -> None:
    first, now_ms = an_event(delivery_id="d1"), Clock().now_ms()  # As the server's clock has it, which is right.
    others = (an_event(delivery_id=f"o{number}") for number in range(1000))
    other = next(event for event in others if keys.shard_of(event) == keys.shard_of(first))
    await appended(at(now_ms, log=log, home=home), first)

    for wrong_ms in (now_ms + 50 * WINDOW.window_ms, now_ms - 50 * WINDOW.window_ms):
        await appended(at(wrong_ms, log=log, home=home), other)

    again = await appended(at(now_ms + WINDOW.window_ms - 1, log=log, home=home), first)
    assert (again.duplicate, again.event_id) == (True, first.id)


async def test_periods_that_nobody_looks_at_any_more_are_forgotten(log: LogSettings, home: Path, client: Any, keys: Keys) -> None:
    event = an_event(delivery_id="d1")
    for age in range(20):
        await appended(at(NOW_MS + age * WINDOW.period_ms, log=log, home=home), event)

    noted = client.hget(keys.ledger(keys.shard_of(event)), "seen_depths").decode()
    assert 1 < noted.count("=") <= 8


SAMPLED = 256
"""So many of the 4096 buckets are filled, as if the shard had sixteen times the events."""


def append_many(client: Any, keys: Keys, *, numbers: range) -> None:
    """Through the real script, with entries as small as can be: only `seen` is measured."""
    sha = client.script_load(script("append").text)
    calls = client.pipeline(transaction=False)
    for number in numbers:
        spread = hashlib.blake2b(str(number).encode(), digest_size=MARKER_BYTES).digest()
        marker = (int.from_bytes(spread[:4]) % SAMPLED).to_bytes(4) + spread[4:]
        at, stems = [keys.ledger(0), *keys.event_streams(0)], WINDOW.stems(keys, shard=0, now_ms=NOW_MS)
        head = b"%b%buuid%b20%d" % (marker, marker, marker[:8], bucket_of(marker))
        calls.evalsha(sha, len(at), *at, "abcd0123", WINDOW.ttl_s, 0, 0, *stems, head, *[""] * len(EVENT_FIELDS))
    assert {type(reply) for (reply,) in calls.execute()} == {bytes}


def measured(client: Any, keys: Keys) -> tuple[int, set[bytes]]:
    """The bytes of all buckets as the server counts them, with their keys; and how they are encoded."""
    buckets = list(client.scan_iter(match=f"{keys.prefix}*:seen:*", count=1000))
    looks = client.pipeline(transaction=False)
    for bucket in buckets:
        looks.memory_usage(bucket, samples=0)
        looks.object("ENCODING", bucket)
    replies = looks.execute()
    return sum(replies[::2]), set(replies[1::2])


def test_an_event_is_remembered_in_at_most_80_bytes(own_log: LogSettings, home: Path, server_kind: ServerKind) -> None:
    client, keys = open_raw(own_log.model_copy(update={"timeout_ms": 60_000}), home=home), Keys(own_log.prefix, 1)
    client.config_set("appendfsync", "no")
    client.hset(keys.ledger(0), "incarnation", "abcd0123")

    # Times sixteen, per shard and period: a quiet log; 5 million events in the window of four shards; the moment when all
    # buckets are full and their children nearly empty; and more than a hash could keep packed, a lot more on one of the servers.
    most = 150_000 if server_kind.server is EmbeddedServer else 60_000
    events = 0
    for scale in (5_000, 20_000, 36_000, most):
        for start in range(events, scale, 1000):
            append_many(client, keys, numbers=range(start, start + 1000))
            client.xtrim(keys.events(0, "default"), maxlen=0, approximate=False)
        events = scale

        bucket_bytes, encodings = measured(client, keys)
        assert bucket_bytes / events <= MOST_BYTES
        assert encodings == {b"listpack"}
    client.close()


async def test_a_source_with_a_shorter_window_forgets_sooner_than_the_others(log: LogSettings, home: Path, client: Any) -> None:
    short, long = an_event(source="short", delivery_id="d1"), an_event(source="long", delivery_id="d1")
    windows = {("demo", "short"): SeenWindow.of_source("8h", log="80h")}
    receipts = []
    for after_h in (0, 7, 12):
        now_ns = (NOW_MS + after_h * 3_600_000) * 1_000_000
        stream = EventStream.open(log, home=home, clock=Clock(wall_ns=lambda now_ns=now_ns: now_ns), windows=windows)  # type: ignore[misc]
        receipts.append([(await stream.append(event)).duplicate for event in (short, long)])
        await stream.close()

    assert receipts == [[False, False], [True, True], [False, True]]
    (bucket, *_) = client.keys(f"{log.prefix}*seen:8h:*")
    assert 8 * 3600 <= client.ttl(bucket) <= 10 * 3600


async def test_full_buckets_of_one_window_do_not_make_another_window_forget(
    log: LogSettings, home: Path, clock: Clock, client: Any, keys: Keys
) -> None:
    own, short = SeenWindow.of_source("8h", log="80h"), an_event(source="short", delivery_id="d1")
    others = (an_event(source="long", delivery_id=f"d{number}") for number in range(1000))
    long = next(event for event in others if keys.shard_of(event) == keys.shard_of(short))  # Depths are the ledger's, one for each shard.
    for event, window in ((short, own), (long, WINDOW)):
        fill(client, window.keys(keys, shard=keys.shard_of(event), marker=marker_of(event), now_ms=NOW_MS)[:1])
    stream = EventStream.open(log, home=home, clock=clock, windows={("demo", "short"): own})

    receipts = [await stream.append(event) for event in (long, short, long, short)]

    await stream.close()
    assert [receipt.duplicate for receipt in receipts] == [False, False, True, True]
