"""A spool is emptied beside senders that go on sending, over a real log and a real disk; without a server of HTTP."""

from __future__ import annotations

import asyncio
import errno
import math
import os
import threading
from collections.abc import AsyncIterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from infra.clock import Clock
from infra.settings import LogSettings
from infra.spools import read_spools
from infra.streams.stream import EventStream
from infra.telemetry import Telemetry
from ingest.appending import Appender
from ingest.drain import Drain
from ingest.keeping import Keeper
from ingest.spool import Spool
from ingest.watch import LogWatch
from schemas.errors import SpoolUnavailable, StreamUnavailable
from schemas.event import StreamEvent
from schemas.receipt import Receipt
from tests.events import an_event
from tests.ingest.receivers import wait_until
from tests.ingest.spooling import segment_files

SENDERS = 32
DEADLINE_S = 20.0
MIB = 1024 * 1024


@dataclass
class Bench:
    """What a receiver keeps events with, and what empties its spool."""

    keeper: Keeper
    stream: EventStream
    spool: Spool
    watch: LogWatch
    drain: Drain

    async def spool_some(self, count: int) -> None:
        for event in [an_event() for _ in range(count)]:
            await self.spool.keep([event], shard=self.stream.shard_of(event))


def bench_of(home: Path, *, log: LogSettings, telemetry: Telemetry) -> Bench:
    stream = EventStream.open(log, home=home)
    watch = LogWatch(log, home=home, stream=stream, telemetry=telemetry)
    watch.look()
    spool = Spool.hold(home, max_bytes=64 * MIB, clock=Clock())
    spool.start()
    appender = Appender(stream, watch, telemetry)
    keeper = Keeper(appender, spool=spool)
    return Bench(keeper, stream, spool, watch, Drain(appender, spool=spool, keeper=keeper, home=home))


@pytest.fixture
async def bench(home: Path, log: LogSettings, telemetry: Telemetry) -> AsyncIterator[Bench]:
    opened = bench_of(home, log=log, telemetry=telemetry)
    async with opened.watch.running():
        yield opened
    await opened.spool.close()
    await opened.stream.close()


class Senders:
    """Each sends its next event as soon as it has the answer to the last one."""

    def __init__(self, keeper: Keeper) -> None:
        self._keeper = keeper
        self.spooled, self.on_log, self.is_enough = 0, 0, False
        self._many_are_on_the_log = asyncio.Event()

    async def run(self) -> None:
        await asyncio.gather(*(self._go_on() for _ in range(SENDERS)))

    async def _go_on(self) -> None:
        while not self.is_enough:
            (receipt,) = await self._keeper.keep([an_event()])
            self.spooled, self.on_log = self.spooled + receipt.spooled, self.on_log + (not receipt.spooled)
            if self.on_log >= 10 * SENDERS:
                self._many_are_on_the_log.set()

    async def until_on_the_log(self) -> bool:
        with suppress(TimeoutError):
            await asyncio.wait_for(self._many_are_on_the_log.wait(), DEADLINE_S)
        self.is_enough = True
        return self._many_are_on_the_log.is_set()


async def test_senders_that_never_pause_get_past_a_spool_that_is_emptied(bench: Bench, home: Path) -> None:
    await bench.spool_some(500)
    senders = Senders(bench.keeper)

    async with bench.drain.running():
        sending = asyncio.create_task(senders.run())
        assert await senders.until_on_the_log(), f"{senders.spooled} were spooled, and {senders.on_log} went to the log"
        await sending

    assert sum(state.events for state in read_spools(home)) == 0


@pytest.mark.parametrize("in_order_for_s", [0.5, math.inf])
async def test_senders_that_never_pause_need_not_wait_until_a_large_spool_is_emptied(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, in_order_for_s: float
) -> None:
    monkeypatch.setattr("ingest.keeping.IN_ORDER_FOR_S", in_order_for_s)
    monkeypatch.setattr("ingest.drain.BATCH_RECORDS", 1)  # It is emptied hardly faster than it is filled.
    await asyncio.gather(*(bench.spool_some(100) for _ in range(50)))
    senders = Senders(bench.keeper)

    async with bench.drain.running():
        sending = asyncio.create_task(senders.run())
        async with asyncio.timeout(DEADLINE_S):
            while senders.on_log == 0 and senders.spooled < 10_000 and not bench.spool.is_empty:  # noqa: ASYNC110 - nobody sets an event
                await asyncio.sleep(0.01)
        senders.is_enough, found = True, (senders.on_log > 0, bench.spool.is_empty)
        await sending

    assert found == (in_order_for_s < math.inf, False)


async def test_senders_that_never_pause_get_past_what_a_receiver_before_them_left(
    home: Path, log: LogSettings, telemetry: Telemetry, bench: Bench
) -> None:
    await bench.spool_some(50)
    heir = Spool(bench.spool.folder, max_bytes=64 * MIB, clock=Clock())
    heir.start()
    appender = Appender(bench.stream, bench.watch, telemetry)
    keeper = Keeper(appender, spool=heir)
    senders = Senders(keeper)

    async with Drain(appender, spool=heir, keeper=keeper, home=home).running():
        sending = asyncio.create_task(senders.run())
        assert await senders.until_on_the_log(), f"{senders.spooled} were spooled, and {senders.on_log} went to the log"
        await sending

    await heir.close()


async def test_a_disk_that_takes_its_time_is_not_asked_without_a_pause(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    syncs, asked, really = threading.Event(), 0, bench.spool.backlog.read

    def sync(descriptor: int) -> None:
        syncs.wait(DEADLINE_S)
        os.fsync(descriptor)

    def count(**how: Any) -> Any:
        nonlocal asked
        asked += 1
        return really(**how)

    monkeypatch.setattr("ingest.group_commit.os.fdatasync", sync)
    monkeypatch.setattr(bench.spool.backlog, "read", count)
    async with bench.drain.running():
        writing = asyncio.create_task(bench.spool_some(1))
        await asyncio.sleep(1)
        syncs.set()
        await writing

    assert asked <= 250


async def test_a_disk_that_takes_records_again_is_found_out_though_nobody_sends(
    bench: Bench, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_descriptor: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as away:
        away.setattr(LogWatch, "is_ready", False)
        with monkeypatch.context() as full:
            full.setattr("ingest.group_commit.os.fdatasync", fail)
            with pytest.raises(SpoolUnavailable):
                await bench.spool_some(1)
            await bench.drain.step(asyncio.Event())
            assert not bench.keeper.is_ready

        await bench.drain.step(asyncio.Event())

        assert bench.keeper.is_ready
    async with bench.drain.running():
        await asyncio.to_thread(wait_until, lambda: not segment_files(home), what="what was tried with is gone")
    assert bench.spool.is_empty


async def test_a_torn_end_and_a_damaged_place_are_counted_once_and_the_rest_is_on_the_log(
    bench: Bench, home: Path, telemetry: Telemetry, monkeypatch: pytest.MonkeyPatch
) -> None:
    events = [an_event() for _ in range(3)]
    for event in events:
        await bench.spool.keep([event], shard=bench.stream.shard_of(event))
    (path,) = segment_files(home)
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data + data[:20])
    heir, really, failures = Spool(bench.spool.folder, max_bytes=MIB, clock=Clock()), bench.stream.append, iter(range(2))

    async def append(event: StreamEvent, **how: Any) -> Receipt:
        if next(failures, None) is not None:
            raise StreamUnavailable("the log did not answer: a test took it away")
        return await really(event, **how)

    monkeypatch.setattr(bench.stream, "append", append)
    heir.start()
    async with Drain(Appender(bench.stream, bench.watch, telemetry), spool=heir, keeper=bench.keeper, home=home).running():
        await asyncio.to_thread(wait_until, lambda: not segment_files(home), what="the spool is emptied")
    await heir.close()

    page = telemetry.metrics_page().decode()
    assert [line for line in page.splitlines() if line.startswith("queue_spool_damages_total")] == [
        'queue_spool_damages_total{kind="damaged"} 1.0',
        'queue_spool_damages_total{kind="torn"} 1.0',
    ]
    assert [(await really(event)).duplicate for event in events] == [True, False, True]
