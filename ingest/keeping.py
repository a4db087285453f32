"""Owns the decision where an event is kept: on the log, or in the spool while the log cannot be believed to take it.

The first append that is refused or in doubt is the last one that is waited for: from then on events go to the spool at once, until
whoever empties it (`drain.py`) finds that the log takes them. Events of a shard that has some in the spool follow them there, so that
they do not overtake each other. Where it has but few they wait a moment for those to be on the log: senders that never pause would
have something in the spool for ever. Where it has many, and the log takes them for some time already, order is given up: as long as
whatever comes is written to the disk first and to the log afterwards, there may be no end to it. What neither can keep is a 503.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Mapping, Sequence

from infra.acknowledged import Life
from infra.streams.gathering import Batch
from infra.streams.prepared import Form
from ingest.appending import Appender, Owner
from ingest.spool import Spool
from schemas.errors import ConfigError, SpoolFull, SpoolUnavailable, StreamUnavailable
from schemas.event import Priority, StreamEvent
from schemas.receipt import Receipt

LET_PASS_WITHIN_S = 0.5
"""How long the last events of a shard in the spool are waited for; it takes a tenth of that, if the log takes them."""
IN_ORDER_FOR_S = 5.0
"""How long the events of a shard go behind those in the spool after the log has begun to take these."""


class Keeper:
    """Keeps events, somewhere that is synced."""

    def __init__(self, appender: Appender, *, spool: Spool | None) -> None:
        self._appender = appender
        self._stream = appender.stream
        self._telemetry = appender.telemetry
        self._spool = spool
        self._down: dict[int, str] = {}
        """Shards that the log did not take events of when it was last asked to, and what it said."""
        self._overdue: set[int] = set()
        """Shards whose last events in the spool were waited for in vain; nobody else waits until one of them is on the log."""
        self._up_since: dict[int, float] = {}
        """Shards of which the log takes what is in the spool, and since when."""

    @property
    def is_ready(self) -> bool:
        """Whether an event would be kept now."""
        return self._appender.watch.is_ready or (self._spool is not None and self._spool.has_room)

    async def keep(self, events: Sequence[StreamEvent]) -> list[Receipt]:
        """Their receipts, when all of them are kept: one event, or the parts of one body. Raises Unavailable."""
        if self._spool is None:
            return await self._appender.append(events)
        if self._down or not self._spool.is_empty:
            shard = self._stream.shard_of(events[0])
            await self._let_few_pass(shard, spool=self._spool)
            if shard in self._down or (self._spool.has(shard) and not self._may_overtake(shard)):
                return await self._behind_others(events, shard=shard, spool=self._spool)
        return await self._appended(events, appending=self._appender.append(events), spool=self._spool)

    async def _appended(self, events: Sequence[StreamEvent], *, appending: Awaitable[list[Receipt]], spool: Spool) -> list[Receipt]:
        try:
            return await appending
        except (StreamUnavailable, ConfigError) as error:
            # Whether it is on the log or not: under its own event id it is appended once.
            self._note_down(self._stream.shard_of(events[0]), why=str(error))
            return await self._in_the_spool(events, spool=spool)

    def form(self, tenant: str, source: str, *, priority: Priority) -> Form:
        """To prepare events of that source for `begin`."""
        return self._stream.form(tenant, source, priority=priority)

    @property
    def takes_at_once(self) -> bool:
        """Whether the log takes events, as far as is known: then `begin` may be called in the place of `keep`."""
        return not self._down and self._appender.watch.is_fit and (self._spool is None or self._spool.is_empty)

    def begin(self, batch: Batch) -> None:
        """Its append, on its way. What there is to do when it is told, `ended` says of each event, and `all_ended` of all of them."""
        self._stream.begin(batch)

    def all_ended(self, accepted: Mapping[Owner, int], *, highest: Mapping[Life, int]) -> bool:
        """The same as `ended`, of so many events of each owner that all are new, and have numbers up to these."""
        if not self._appender.watch.is_proven or self._telemetry.tells_all:
            return False
        self._appender.note_all(accepted, highest=highest)
        return True

    def ended(self, receipt: Receipt | None, *, tenant: str, source: str, event_type: str) -> bool:
        """Whether what was told of an event that was begun is all there is to wait for; else `finish` it."""
        if receipt is None or not self._appender.watch.is_proven:
            return False
        self._appender.note(receipt, tenant=tenant, source=source, event_type=event_type)
        return True

    async def finish(self, event: StreamEvent, *, receipt: Receipt | None, error: BaseException | None) -> list[Receipt]:
        """What `keep` would have returned of an event that was begun, and of which that was told; raises Unavailable."""
        believed = self._appender.believed(event, receipt=receipt, error=error)
        return await (believed if self._spool is None else self._appended([event], appending=believed, spool=self._spool))

    async def _let_few_pass(self, shard: int, *, spool: Spool) -> None:
        is_near = shard not in self._down and shard not in self._overdue and spool.has_few(shard)
        if is_near and not await spool.passed(shard, within_s=LET_PASS_WITHIN_S):
            self._overdue.add(shard)

    def _may_overtake(self, shard: int) -> bool:
        since = self._up_since.get(shard)
        return since is not None and asyncio.get_running_loop().time() - since > IN_ORDER_FOR_S

    async def _behind_others(self, events: Sequence[StreamEvent], *, shard: int, spool: Spool) -> list[Receipt]:
        try:
            return await self._in_the_spool(events, spool=spool)
        except (SpoolFull, SpoolUnavailable):
            if shard in self._down:
                raise
            # Better out of order than refused: order is promised to nobody here.
            return await self._appender.append(events)

    async def _in_the_spool(self, events: Sequence[StreamEvent], *, spool: Spool) -> list[Receipt]:
        await spool.keep(events, shard=self._stream.shard_of(events[0]))
        for event in events:
            self._telemetry.spooled.add(1, {"tenant": event.tenant_id, "source": event.source})
            self._telemetry.log.debug("event spooled", event_id=event.id, type=event.event_type)
        return [spooled_receipt(event) for event in events]

    def _note_down(self, shard: int, *, why: str) -> None:
        if not self._down:
            self._telemetry.log.warning("the log takes no events; spooling them", reason=why)
        self._down.update(dict.fromkeys(self._stream.fate_of(shard), why))
        for other in self._stream.fate_of(shard):
            self._up_since.pop(other, None)

    def note_up(self, shard: int) -> None:
        """The log has taken an event of this shard from the spool."""
        self._up_since.setdefault(shard, asyncio.get_running_loop().time())
        self._overdue.discard(shard)
        if shard in self._down:
            for other in self._stream.fate_of(shard):
                self._down.pop(other, None)
            if not self._down:
                self._telemetry.log.info("the log takes events again")

    def try_again(self) -> None:
        """Nothing is in the spool, so the next event has to find out whether the log takes it."""
        self._down.clear()
        self._overdue.clear()
        self._up_since.clear()


def spooled_receipt(event: StreamEvent) -> Receipt:
    return Receipt(event.id, duplicate=False, conflict=False, stream="", incarnation="", entry_id="", sequence=0, spooled=True)
