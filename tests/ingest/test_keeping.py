"""Where an event is kept: on the log, in the spool, or nowhere; decided without a server of HTTP, over a real log and a real disk."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from infra.clock import Clock
from infra.settings import LogSettings
from infra.streams.stream import EventStream
from infra.telemetry import Telemetry
from ingest.appending import Appender
from ingest.keeping import LET_PASS_WITHIN_S, Keeper
from ingest.spool import Spool
from ingest.watch import LogWatch
from schemas.errors import SpoolFull, StreamUnavailable
from schemas.event import StreamEvent
from tests.events import an_event, events_of_all_shards
from tests.ingest.spooling import spooled_events

MIB = 1024 * 1024


@dataclass
class Bench:
    """A keeper over a log whose answers can be taken away."""

    keeper: Keeper
    stream: EventStream
    spool: Spool
    patch: pytest.MonkeyPatch

    def refuse(self, *shards: int) -> None:
        """From now on appends of these shards fail as those to a node that is down do, and the others do not."""
        self.patch.undo()
        really = self.stream.append

        async def append(event: StreamEvent, **how: Any) -> Any:
            if self.stream.shard_of(event) in shards:
                raise StreamUnavailable("the log did not answer: a test took it away")
            return await really(event, **how)

        self.patch.setattr(self.stream, "append", append)

    async def is_spooled(self, event: StreamEvent) -> bool:
        (receipt,) = await self.keeper.keep([event])
        return receipt.spooled


@pytest.fixture
async def bench(home: Path, log: LogSettings, telemetry: Telemetry, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Bench]:
    stream = EventStream.open(log, home=home)
    watch = LogWatch(log, home=home, stream=stream, telemetry=telemetry)
    watch.look()
    spool = Spool.hold(home, max_bytes=MIB, clock=Clock())
    spool.start()
    yield Bench(Keeper(Appender(stream, watch, telemetry), spool=spool), stream, spool, monkeypatch)
    monkeypatch.undo()
    await spool.close()
    await stream.close()


async def test_after_the_first_failure_nobody_waits_for_the_log(bench: Bench, log: LogSettings, home: Path) -> None:
    events = events_of_all_shards(log, count=log.shards)
    bench.refuse(*range(log.shards))
    assert await bench.is_spooled(events[0])
    bench.refuse()

    # On one server all shards share the fate of the first: that it would answer by now is found out by whoever empties the spool.
    assert [await bench.is_spooled(event) for event in events[1:]] == [True] * (log.shards - 1)
    assert spooled_events(home) == events


async def test_events_of_a_shard_that_has_some_in_the_spool_do_not_overtake_them(bench: Bench, log: LogSettings) -> None:
    first, second, *_ = events_of_all_shards(log, count=log.shards)
    bench.refuse(bench.stream.shard_of(first))
    assert await bench.is_spooled(first)
    bench.refuse()

    bench.keeper.note_up(bench.stream.shard_of(first))

    assert await bench.is_spooled(an_event(key=first.key, delivery_id=first.delivery_id))
    assert not await bench.is_spooled(second)


async def test_the_last_events_of_a_shard_in_the_spool_are_waited_for_and_not_in_vain_twice(bench: Bench) -> None:
    first, second, third, last = (an_event(key="k") for _ in range(4))
    shard = bench.stream.shard_of(first)
    await bench.spool.keep([first], shard=shard)

    assert await bench.is_spooled(second)
    began = time.monotonic()
    assert await bench.is_spooled(third)
    assert time.monotonic() - began < LET_PASS_WITHIN_S

    bench.keeper.note_up(shard)
    waiting = asyncio.create_task(bench.is_spooled(last))
    await asyncio.sleep(0)
    batch = bench.spool.backlog.read(upto=bench.spool.end, most_records=9, most_bytes=MIB)
    assert batch is not None
    bench.spool.settled(batch, shards=[shard] * 3)
    assert not await waiting


async def test_what_comes_long_after_the_log_is_back_overtakes_what_is_still_in_the_spool(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    events = [an_event(key="k") for _ in range(3)]
    shard = bench.stream.shard_of(events[0])
    monkeypatch.setattr("ingest.keeping.LET_PASS_WITHIN_S", 0.01)
    monkeypatch.setattr("ingest.keeping.IN_ORDER_FOR_S", 0.2)
    await bench.spool.keep([an_event(key="k")], shard=shard)
    bench.keeper.note_up(shard)
    assert await bench.is_spooled(events[0])

    await asyncio.sleep(0.3)  # The time itself is what is tried.
    assert not await bench.is_spooled(events[1])

    bench.refuse(shard)
    assert await bench.is_spooled(an_event(key="k"))
    bench.refuse()
    bench.keeper.note_up(shard)
    assert await bench.is_spooled(events[2])


async def test_a_node_of_a_cluster_that_is_down_holds_up_its_own_shards_only(bench: Bench, log: LogSettings) -> None:
    first, second, *_ = events_of_all_shards(log, count=log.shards)
    bench.refuse(bench.stream.shard_of(first))
    bench.patch.setattr(bench.stream, "fate_of", lambda shard: (shard,))

    assert await bench.is_spooled(first)
    assert not await bench.is_spooled(second)


async def test_a_full_spool_is_passed_by_when_the_log_takes_events_and_refuses_when_it_does_not(bench: Bench) -> None:
    large = [an_event(key="k", payload=b"x" * 400_000) for _ in range(4)]
    shard = bench.stream.shard_of(large[0])
    bench.refuse(shard)
    assert [await bench.is_spooled(event) for event in large[:2]] == [True, True]

    with pytest.raises(SpoolFull):
        await bench.keeper.keep([large[2]])
    bench.refuse()
    bench.keeper.note_up(shard)

    assert not await bench.is_spooled(large[3])
