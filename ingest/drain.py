"""Owns emptying spools into the log: this receiver's own, and those of receivers that died.

In order, a batch at a time, and a batch is done with only when the log has answered for every record of it. Whatever is repeated after
a crash has its old event id, so that the log recognises it.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from infra.failpoints import reach
from infra.running.loops import BackOff, keep_running
from infra.segments import Damage, Record, Segment
from infra.spools import Folder, folders
from infra.streams.packed import unpack
from ingest.appending import Appender
from ingest.backlog import EVERYTHING, Backlog, Batch
from ingest.keeping import Keeper
from ingest.spool import Spool
from schemas.errors import MalformedEntry
from schemas.event import StreamEvent

INTERVAL_MS = 200
BACK_OFF = BackOff(first_ms=200, cap_ms=2000)
BATCH_RECORDS = 64
BATCH_BYTES = 2 * 1024 * 1024
ORPHANS_EVERY_S = 2.0
LOOK_AGAIN_S = 0.005
"""While a disk takes its time to sync what is being written, there is nothing to do."""


class Drain:
    """Looks again and again whether there is something to empty, and a log that takes it."""

    def __init__(self, appender: Appender, *, spool: Spool, keeper: Keeper, home: Path) -> None:
        self._appender = appender
        self._spool = spool
        self._keeper = keeper
        self._home = home
        self._telemetry = appender.telemetry
        self._looked_for_orphans = float("-inf")

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        stop = asyncio.Event()
        draining = asyncio.create_task(self._drain(stop))
        try:
            yield
        finally:
            stop.set()
            await draining

    async def _drain(self, stop: asyncio.Event) -> None:
        telemetry = self._telemetry
        await keep_running(
            lambda: self.step(stop), name="spool", telemetry=telemetry, stop=stop, interval_ms=INTERVAL_MS, back_off=BACK_OFF
        )

    async def step(self, stop: asyncio.Event) -> None:
        """Empties what there is; raises StreamUnavailable when the log stops taking it."""
        self._spool.tell(self._telemetry)
        if not self._appender.watch.is_ready:
            await self._spool.try_disk()
            return
        if not self._spool.is_empty:
            await self._empty_own(stop)
        elif not stop.is_set():
            self._keeper.try_again()
            await self._empty_orphans(stop)

    async def _empty_own(self, stop: asyncio.Event) -> None:
        spool = self._spool
        while not stop.is_set():
            # More than comes in meanwhile, or it would never end.
            most, spool.arrived = BATCH_RECORDS + spool.arrived, 0
            upto = spool.end
            batch = await asyncio.to_thread(spool.backlog.read, upto=upto, most_records=most, most_bytes=BATCH_BYTES)
            if batch is not None:
                spool.settled(batch, shards=await self._hand_over(batch, backlog=spool.backlog))
            elif not await spool.rest(upto=upto):
                await asyncio.sleep(LOOK_AGAIN_S)
            elif spool.end == upto:
                return

    async def _empty_orphans(self, stop: asyncio.Event) -> None:
        now = asyncio.get_running_loop().time()
        if now < self._looked_for_orphans + ORPHANS_EVERY_S:
            return
        self._looked_for_orphans = now
        for folder in await asyncio.to_thread(folders, self._home):
            if folder.path != self._spool.folder.path and folder.segments() and (held := folder.hold()) is not None:
                try:
                    await self._empty_orphan(folder, stop=stop)
                finally:
                    os.close(held)

    async def _empty_orphan(self, folder: Folder, *, stop: asyncio.Event) -> None:
        backlog = Backlog(folder)
        self._telemetry.log.info("emptying the spool of a receiver that is gone", receiver=folder.receiver)
        while not stop.is_set():
            began = asyncio.get_running_loop().time()
            batch = await asyncio.to_thread(backlog.read, upto=EVERYTHING, most_records=BATCH_RECORDS, most_bytes=BATCH_BYTES)
            if batch is None:
                return
            await self._hand_over(batch, backlog=backlog)
            # Events that arrive go straight to the log meanwhile: they get at least every other moment.
            await asyncio.sleep(asyncio.get_running_loop().time() - began)

    async def _hand_over(self, batch: Batch, *, backlog: Backlog) -> list[int]:
        """The shard of each record that was appended."""
        contents = [(record, unpacked(record)) for record in batch.records]
        found = [events for _, events in contents if events and not isinstance(events, MalformedEntry)]
        outcomes = await asyncio.gather(*(self._append(events) for events in found), return_exceptions=True)
        for outcome in outcomes:
            if isinstance(outcome, BaseException):
                raise outcome
        # Not before: a log that takes nothing is asked again, with all of the batch.
        for damage in batch.damages:
            await self._report(damage, segment=batch.segment, folder=backlog.folder)
        for record, error in contents:
            if isinstance(error, MalformedEntry):
                await self._put_aside(record, error=error, segment=batch.segment, folder=backlog.folder)
        reach("spool.before_settle")
        await asyncio.to_thread(backlog.settle, batch)
        return [self._appender.stream.shard_of(events[0]) for events in found]

    async def _append(self, events: list[StreamEvent]) -> None:
        receipts = await self._appender.append(events, recheck=True)
        self._keeper.note_up(self._appender.stream.shard_of(events[0]))
        for event, receipt in zip(events, receipts, strict=True):
            if receipt.event_id != event.id:
                await self._appender.stream.alias(event, first_id=receipt.event_id)

    async def _put_aside(self, record: Record, *, error: MalformedEntry, segment: Segment, folder: Folder) -> None:
        aside = await asyncio.to_thread(folder.keep_aside, segment, start=record.offset, end=record.end)
        self._telemetry.spool_damages.add(1, {"kind": "unreadable"})
        self._telemetry.log.error("a record of the spool has no events that this release reads", kept=str(aside), reason=str(error))

    async def _report(self, damage: Damage, *, segment: Segment, folder: Folder) -> None:
        about = {"file": segment.path.name, "receiver": folder.receiver, "offset": damage.offset, "bytes": damage.end - damage.offset}
        self._telemetry.spool_damages.add(1, {"kind": "torn" if damage.is_torn else "damaged"})
        if damage.is_torn:
            # A write that was cut off never returned, so nobody was answered for it.
            self._telemetry.log.warning("the end of a spool's segment was torn, and is cut", **about)
            return
        aside = await asyncio.to_thread(folder.keep_aside, segment, start=damage.offset, end=damage.end)
        self._telemetry.log.error("a spool's segment is damaged; its other records are kept", kept=str(aside), **about)


def unpacked(record: Record) -> list[StreamEvent] | MalformedEntry:
    """What a whole record holds, or why this release does not know. Pure."""
    try:
        return unpack(record.payload)
    except MalformedEntry as error:
        return error
