"""Owns handing events to the log and believing its answer: the server is proven fit, the events counted and told."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from infra.acknowledged import Life
from infra.streams.stream import EventStream
from infra.telemetry import Telemetry
from ingest.noting import Noting
from ingest.watch import LogWatch
from schemas.errors import StreamUnavailable
from schemas.event import StreamEvent
from schemas.receipt import Receipt

Owner = tuple[str, str]
"""Tenant and source."""


@dataclass(frozen=True, slots=True)
class Appender:
    """The log, as a receiver uses it."""

    stream: EventStream
    watch: LogWatch
    telemetry: Telemetry
    noting: Noting | None = None

    async def append(self, events: Sequence[StreamEvent], *, recheck: bool = False) -> list[Receipt]:
        """One event, or the parts of one body together; raises StreamUnavailable when the log cannot be believed to have them."""
        self.watch.refuse_unproven()
        with self.telemetry.span("log.append"):
            if len(events) > 1:
                receipts = await self.stream.append_parts(events, recheck=recheck)
            else:
                receipts = [await self.stream.append(events[0], recheck=recheck)]
        return await self._believed(events, receipts=receipts)

    async def believed(self, event: StreamEvent, *, receipt: Receipt | None, error: BaseException | None) -> list[Receipt]:
        """The same for an append of which that was told; raises the error that it was."""
        if receipt is None:
            raise error or StreamUnavailable("the log said nothing of the event")
        return await self._believed([event], receipts=[receipt])

    async def _believed(self, events: Sequence[StreamEvent], *, receipts: list[Receipt]) -> list[Receipt]:
        # The append may have been the first command on a new connection, to a server that nobody has looked at.
        if not self.watch.is_proven:
            await self.watch.prove()
        for event, receipt in zip(events, receipts, strict=True):
            self.note(receipt, tenant=event.tenant_id, source=event.source, event_type=event.event_type)
            for flag in event.flags if not receipt.duplicate else ():
                self.telemetry.flagged.add(1, {"tenant": event.tenant_id, "source": event.source, "flag": flag})
        return receipts

    def note(self, receipt: Receipt, *, tenant: str, source: str, event_type: str) -> None:
        """Counts and tells what the log has taken."""
        if not receipt.duplicate:
            self.note_all({(tenant, source): 1}, highest={(receipt.shard, receipt.stream, receipt.incarnation): receipt.sequence})
        if self.telemetry.tells_all:
            self.telemetry.log.debug("event accepted", event_id=receipt.event_id, type=event_type, duplicate=receipt.duplicate)

    def note_all(self, accepted: Mapping[Owner, int], *, highest: Mapping[Life, int]) -> None:
        """Counts new events, so many of each owner, that the log has given numbers up to these."""
        if self.noting is not None:
            self.noting.note(accepted, highest=highest)
        for (tenant, source), count in accepted.items():
            self.telemetry.produced.add(count, {"tenant": tenant, "source": source})
