from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from infra.settings import LogSettings
from infra.streams import leases
from infra.streams.keys import Keys
from infra.streams.reading import Lease
from infra.streams.stream import EventStream
from processors import Delivery, Reject, Retry, StreamEvent, processor
from tests.events import an_event
from tests.infra.streams.raw import open_raw
from tests.processors.conftest import Starter
from tests.processors.waiting import letters, take_and_die, unsettled, until


async def test_every_event_reaches_its_processor_unchanged(stream: EventStream, working: Starter, log: LogSettings, home: Path) -> None:
    seen: dict[str, StreamEvent] = {}

    @processor("*")
    async def keep(event: StreamEvent, delivery: Delivery) -> None:
        assert delivery.attempt == 1
        seen[event.id] = event

    events = [an_event(payload=bytes([n])) for n in range(100)]
    async with working(keep):
        await asyncio.gather(*[stream.append(event) for event in events])
        await until(lambda: len(seen) == 100)

    assert seen == {event.id: event for event in events}
    assert unsettled(log, home) == 0


async def test_a_sync_processor_runs_in_a_thread(stream: EventStream, working: Starter) -> None:
    done: list[str] = []

    @processor("*")
    def keep(event: StreamEvent, delivery: Delivery) -> None:
        with pytest.raises(RuntimeError):
            asyncio.get_running_loop()
        done.append(event.id)

    event = an_event()
    async with working(keep):
        await stream.append(event)
        await until(lambda: done == [event.id])


async def test_an_event_that_keeps_failing_becomes_a_dead_letter_after_four_attempts(
    stream: EventStream, working: Starter, log: LogSettings, home: Path
) -> None:
    attempts: list[int] = []

    @processor("*")
    async def fail(event: StreamEvent, delivery: Delivery) -> None:
        attempts.append(delivery.attempt)
        raise ValueError("never")

    event = an_event()
    async with working(fail):
        await stream.append(event)
        await until(lambda: len(letters(log, home)) == 1)

    assert attempts == [1, 2, 3, 4]
    (letter,) = letters(log, home)
    assert letter.event == event
    assert (letter.reason, letter.attempts) == ("failed 4 times: ValueError: never", 4)
    assert 'raise ValueError("never")' in letter.traceback
    assert unsettled(log, home) == 0


async def test_an_event_that_fails_once_succeeds_at_its_retry(stream: EventStream, working: Starter, log: LogSettings, home: Path) -> None:
    attempts: list[int] = []

    @processor("*")
    async def fail_once(event: StreamEvent, delivery: Delivery) -> None:
        attempts.append(delivery.attempt)
        if delivery.attempt == 1:
            raise Retry(after_ms=10)

    async with working(fail_once):
        await stream.append(an_event())
        await until(lambda: attempts == [1, 2])

    assert letters(log, home) == []
    assert unsettled(log, home) == 0


async def test_a_rejected_event_is_tried_once(stream: EventStream, working: Starter, log: LogSettings, home: Path) -> None:
    @processor("*")
    async def reject(event: StreamEvent, delivery: Delivery) -> None:
        raise Reject("not for us")

    async with working(reject):
        await stream.append(an_event())
        await until(lambda: len(letters(log, home)) == 1)

    assert (letters(log, home)[0].reason, letters(log, home)[0].attempts) == ("rejected: not for us", 1)


async def test_a_processor_that_overstays_its_time_fails(stream: EventStream, working: Starter, log: LogSettings, home: Path) -> None:
    @processor("*", max_attempts=1, timeout_ms=50)
    async def hang(event: StreamEvent, delivery: Delivery) -> None:
        await asyncio.Event().wait()

    async with working(hang):
        await stream.append(an_event())
        await until(lambda: len(letters(log, home)) == 1)

    assert "ran longer than its timeout_ms=50" in letters(log, home)[0].reason


async def test_a_failing_event_does_not_delay_its_neighbours(stream: EventStream, working: Starter) -> None:
    done: list[str] = []

    @processor("*")
    async def keep(event: StreamEvent, delivery: Delivery) -> None:
        if event.event_type == "github.bad":
            raise SystemExit(3)
        done.append(event.id)

    async with working(keep):
        await stream.append(an_event(event_type="github.bad"))
        for _ in range(20):
            await stream.append(an_event())
        await until(lambda: len(done) == 20)


async def test_an_event_that_nobody_wants_is_acked(stream: EventStream, working: Starter, log: LogSettings, home: Path) -> None:
    @processor("stripe.*")
    async def never(event: StreamEvent, delivery: Delivery) -> None:
        raise AssertionError

    async with working(never):
        await stream.append(an_event())
        await until(lambda: unsettled(log, home) == 0)

    assert letters(log, home) == []


async def test_bytes_that_are_no_event_become_a_dead_letter_that_keeps_them(
    stream: EventStream, working: Starter, log: LogSettings, home: Path
) -> None:
    @processor("*")
    async def never(event: StreamEvent, delivery: Delivery) -> None:
        raise AssertionError

    client = open_raw(log, home=home)
    client.xadd(Keys(log.prefix, log.shards).events(0, "default"), {b"who": b"\xff\x00 knows"})
    client.close()
    async with working(never):
        await until(lambda: len(letters(log, home)) == 1)

    (letter,) = letters(log, home)
    assert (letter.event, letter.reason) == (None, "the entry is no event")
    assert letter.entry["who"].encode("latin-1") == b"\xff\x00 knows"


async def test_deliveries_of_a_dead_consumer_are_claimed_and_run(
    stream: EventStream, working: Starter, log: LogSettings, home: Path
) -> None:
    done: list[tuple[str, int]] = []

    @processor("*")
    async def keep(event: StreamEvent, delivery: Delivery) -> None:
        done.append((event.id, delivery.attempt))

    events = [an_event() for _ in range(10)]
    await take_and_die(stream, log, home, events=events, consumer="dead")
    async with working(keep, lease_ms=300):
        await until(lambda: len(done) == 10)

    assert sorted(done) == sorted((event.id, 1) for event in events)
    assert unsettled(log, home) == 0


async def test_a_restarted_worker_takes_its_own_deliveries_without_waiting_for_the_lease(
    stream: EventStream, working: Starter, log: LogSettings, home: Path
) -> None:
    done: list[str] = []

    @processor("*")
    async def keep(event: StreamEvent, delivery: Delivery) -> None:
        done.append(event.id)

    events = [an_event() for _ in range(10)]
    await take_and_die(stream, log, home, events=events, consumer="c1")
    async with working(keep, lease_ms=3_600_000):
        await until(lambda: len(done) == 10)

    assert sorted(done) == sorted(event.id for event in events)


async def test_an_event_whose_workers_die_again_and_again_becomes_a_dead_letter(
    stream: EventStream, working: Starter, log: LogSettings, home: Path
) -> None:
    @processor("*")
    async def never(event: StreamEvent, delivery: Delivery) -> None:
        raise AssertionError

    await take_and_die(stream, log, home, events=[an_event()], consumer="c1", deliveries=5)
    async with working(never):
        await until(lambda: len(letters(log, home)) == 1)

    assert letters(log, home)[0].reason == "its worker died while it was running, and its 4 attempts are used up"


@pytest.mark.fault("D4")
async def test_a_slow_processor_keeps_its_lease(stream: EventStream, working: Starter, log: LogSettings, home: Path) -> None:
    runs: list[str] = []
    finish = asyncio.Event()

    @processor("*")
    async def slow(event: StreamEvent, delivery: Delivery) -> None:
        runs.append(event.id)
        await finish.wait()

    async with working(slow, consumer="c1", lease_ms=300), working(slow, consumer="c2", lease_ms=300):
        await stream.append(an_event())
        await until(lambda: len(runs) == 1)
        await asyncio.sleep(1.5)  # five leases: long enough for the other worker to take over what is not renewed
        finish.set()
        await until(lambda: unsettled(log, home) == 0)

    assert len(runs) == 1


@pytest.mark.control("D4")
async def test_without_renewals_a_slow_processor_runs_beside_its_second_run(
    monkeypatch: pytest.MonkeyPatch, stream: EventStream, working: Starter, log: LogSettings, home: Path
) -> None:
    async def renews_nothing(*_: object, **__: object) -> list[Lease]:
        return []

    monkeypatch.setattr(leases, "renew", renews_nothing)
    monkeypatch.setattr(leases.LeaseKeeper, "renew", lambda *_: [])

    with pytest.raises(AssertionError, match="== 1"):
        await test_a_slow_processor_keeps_its_lease(stream, working, log, home)


async def test_a_worker_that_stops_finishes_what_it_has_in_hand(
    stream: EventStream, working: Starter, log: LogSettings, home: Path
) -> None:
    begun: list[str] = []
    done: list[str] = []

    @processor("*")
    async def slow(event: StreamEvent, delivery: Delivery) -> None:
        begun.append(event.id)
        await asyncio.sleep(0.3)
        done.append(event.id)

    async with working(slow):
        for _ in range(5):
            await stream.append(an_event())
        await until(lambda: len(begun) == 5)

    assert len(done) == 5
    assert unsettled(log, home) == 0


async def test_a_worker_heals_when_its_group_vanishes(stream: EventStream, working: Starter, log: LogSettings, home: Path) -> None:
    done: list[str] = []

    @processor("*")
    async def keep(event: StreamEvent, delivery: Delivery) -> None:
        done.append(event.id)

    client = open_raw(log, home=home)
    keys = Keys(log.prefix, log.shards)
    async with working(keep):
        await stream.append(an_event())
        await until(lambda: len(done) == 1)
        client.delete(*[name for shard in keys.all_shards() for name in keys.event_streams(shard)])
        event = an_event()
        await stream.append(event)
        await until(lambda: event.id in done)
    client.close()
