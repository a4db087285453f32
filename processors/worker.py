"""Owns the life of deliveries in one worker: read, run, settle; renew what is in hand; take over what others left.

    reader ──► hand (bounded) ──► pool of attempts ──► settler, many decisions in one call
                 │ leases renewed until settled

Each loop is guarded: while the log is down they back off and go on. At `stop` the worker reads no more, finishes what it
has in hand, and ends; what it cannot settle in time stays pending and is claimed by another worker.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from datetime import timedelta
from pathlib import Path

from infra.clock import Clock
from infra.running.loops import keep_running
from infra.settings import LogSettings
from infra.streams import groups, janitor, leases
from infra.streams.connection import open_pipeline
from infra.streams.delayed import promote_due
from infra.streams.entries import decode
from infra.streams.keys import Keys
from infra.streams.lag import read_lag
from infra.streams.settle import Ack, GiveUp, Settlement, settle
from infra.streams.stream import GroupReader, Lease
from infra.telemetry import Telemetry
from processors.delivery import Delivery
from processors.dispatch import attempt as run_attempt
from processors.leases import RENEWALS_PER_LEASE, Hand
from processors.registry import ProcessorSpec, Registry
from processors.retry import RetryPolicy, attempt_number, describe
from processors.settings import GroupSettings
from processors.settle import after_attempt, deadly, malformed
from schemas.errors import MalformedEntry, StreamUnavailable
from schemas.event import StreamEvent

PROMOTE_EVERY_MS = 100
TRIM_EVERY_MS = 1000
LAG_EVERY_MS = 2000
CLAIM_EVERY_MS = 500
DRAIN_WITHIN_S = 20.0


class Worker:
    """One consumer of one group."""

    def __init__(
        self,
        group: str,
        *,
        consumer: str,
        registry: Registry,
        settings: GroupSettings,
        log: LogSettings,
        home: Path,
        telemetry: Telemetry,
        clock: Clock | None = None,
    ) -> None:
        self._settings = settings
        self._registry = registry
        self._telemetry = telemetry
        self._clock = clock or Clock()
        self._keys = Keys(log.prefix, log.shards)
        # A blocking read holds its connection, so everything else has one of its own.
        self._reads = open_pipeline(log, home=home, wait_ms=settings.block_ms)
        self._acts = open_pipeline(log, home=home)
        self._reader = GroupReader(self._reads, keys=self._keys, group=group, consumer=consumer)
        self._hand = Hand(settings.batch_size)
        self._waiting: asyncio.Queue[Lease] = asyncio.Queue()
        self._decided: asyncio.Queue[tuple[Lease, Settlement]] = asyncio.Queue()
        self._is_declared = False
        self._has_claimed_own = False
        self.is_reading = False
        """True after a read succeeded and until one fails: readiness means progress."""

    @property
    def group(self) -> str:
        return self._reader.group

    async def run(self, stop: asyncio.Event) -> None:
        """Works until `stop` is set, then drains; raises only what an operator must mend."""
        drained = asyncio.Event()
        loops = [
            self._loop("settle", self._settle_decided, until=drained),
            self._loop("renew", self._renew, until=drained, every_ms=self._settings.lease_ms // RENEWALS_PER_LEASE),
            self._loop("promote", self._promote, until=stop, every_ms=PROMOTE_EVERY_MS),
            self._loop("trim", self._trim, until=stop, every_ms=TRIM_EVERY_MS),
            self._loop("lag", self._show_lag, until=stop, every_ms=LAG_EVERY_MS),
        ]
        async with asyncio.TaskGroup() as tasks:
            for loop in loops:
                tasks.create_task(loop)
            pool = [tasks.create_task(self._run_waiting()) for _ in range(self._settings.concurrency)]
            try:
                await asyncio.gather(
                    self._loop("read", self._read, until=stop),
                    self._loop("claim", self._claim_idle, until=stop, every_ms=CLAIM_EVERY_MS),
                )
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(self._hand.wait_until_empty(), DRAIN_WITHIN_S)
            finally:
                drained.set()
                for member in pool:
                    member.cancel()
        await self._reads.close()
        await self._acts.close()

    async def _loop(self, name: str, step: Callable[[], Awaitable[None]], *, until: asyncio.Event, every_ms: int = 0) -> None:
        await keep_running(step, name=f"worker.{name}", telemetry=self._telemetry, stop=until, interval_ms=every_ms)

    # Reading ---------------------------------------------------------------------------------------------------

    async def _read(self) -> None:
        await self._hand.wait_for_room(len(self._reader.streams))
        try:
            await self._declare_once()
            if not self._has_claimed_own:
                await self._claim_own()
            found = await self._reader.read(budget=self._hand.room, block_ms=self._settings.block_ms)
        except StreamUnavailable as error:
            self.is_reading = False
            # After a flush or a failover the group may be gone: declare it again before the next read.
            self._is_declared = self._is_declared and "NOGROUP" not in str(error)
            raise
        self.is_reading = True
        self._take(found)

    async def _declare_once(self) -> None:
        if not self._is_declared:
            created = await groups.declare(self._acts, keys=self._keys, group=self.group)
            self._is_declared = True
            if created:
                self._telemetry.log.info("group created at the start of its streams", group=self.group, streams=created)

    def _take(self, found: list[Lease]) -> None:
        self._hand.take(found)
        for lease in found:
            self._waiting.put_nowait(lease)

    async def _claim_own(self) -> None:
        """Before the first read: what this consumer's name still held when its process died."""
        while (claimed := await leases.claim_own(self._acts, keys=self._keys, reader=self._reader)) is not None:
            await self._run_alone(claimed)
        self._has_claimed_own = True

    async def _claim_idle(self) -> None:
        lease_ms = self._settings.lease_ms
        while self._has_claimed_own:
            claimed = await leases.claim_idle(self._acts, keys=self._keys, reader=self._reader, lease_ms=lease_ms)
            if claimed is None:
                return
            self._telemetry.log.info("delivery taken over from a silent consumer", group=self.group, entry_id=claimed.entry_id)
            await self._run_alone(claimed)

    async def _run_alone(self, lease: Lease) -> None:
        """One at a time, so that an entry that kills its process is not in the company of others."""
        self._hand.take([lease])
        self._decided.put_nowait((lease, await self._decide(lease)))
        await self._hand.wait_until_dropped(lease)

    # Running ---------------------------------------------------------------------------------------------------

    async def _run_waiting(self) -> None:
        while True:
            lease = await self._waiting.get()
            # A lease that was lost while it waited belongs to somebody else, who runs it.
            if self._hand.holds(lease):
                self._decided.put_nowait((lease, await self._decide(lease)))

    async def _decide(self, lease: Lease) -> Settlement:
        try:
            event = decode(lease.fields)
        except MalformedEntry as error:
            self._telemetry.log.error("entry is no event", group=self.group, entry_id=lease.entry_id, reason=str(error))
            return malformed(error, now_ms=self._clock.now_ms())
        spec = self._registry.match(event.event_type)
        if spec is None:
            return Ack()
        number = attempt_number(retry_count=event.retry_count, delivery_count=lease.delivery_count)
        policy = self._policy(spec)
        if number > policy.max_attempts:
            return deadly(processor=spec.name, attempts=number - 1, now_ms=self._clock.now_ms())
        return await self._attempt(event, spec=spec, attempt=number, policy=policy)

    def _policy(self, spec: ProcessorSpec) -> RetryPolicy:
        return RetryPolicy(spec.max_attempts or self._settings.max_attempts, self._settings.retry_delays_ms)

    async def _attempt(self, event: StreamEvent, *, spec: ProcessorSpec, attempt: int, policy: RetryPolicy) -> Settlement:
        delivery = Delivery(
            group=self.group,
            processor=spec.name,
            attempt=attempt,
            max_attempts=policy.max_attempts,
            deadline_at=self._clock.now() + timedelta(milliseconds=spec.timeout_ms),
            idempotency_key=f"{self.group}:{event.id}",
            log=self._telemetry.log.bind(event_id=event.id, group=self.group, attempt=attempt),
        )
        labels = {"group": self.group}
        began = self._clock.monotonic()
        with self._telemetry.span(
            "process", traceparent=event.traceparent, group=self.group, processor=spec.name, event_id=event.id, attempt=attempt
        ) as span:
            error = await run_attempt(spec, event=event, delivery=delivery)
            if error is not None:
                span.set(error=describe(error))
                self._telemetry.failed.add(1, labels)
                self._telemetry.log.warning("attempt failed", event_id=event.id, group=self.group, attempt=attempt, error=describe(error))
        self._telemetry.duration.record(self._clock.monotonic() - began, labels)
        return after_attempt(error, processor=spec.name, attempt=attempt, policy=policy, now_ms=self._clock.now_ms())

    # Settling --------------------------------------------------------------------------------------------------

    async def _settle_decided(self) -> None:
        """Everything that is decided by now, in one call per stream; the next round takes what came meanwhile."""
        try:
            decisions = [await asyncio.wait_for(self._decided.get(), timeout=0.1)]
        except TimeoutError:
            return
        while not self._decided.empty():
            decisions.append(self._decided.get_nowait())
        try:
            lost = await settle(self._acts, keys=self._keys, group=self.group, consumer=self._reader.consumer, decisions=decisions)
        except StreamUnavailable:
            # Not known whether it was carried out; asking again is harmless, since what is settled is no longer ours.
            for decision in decisions:
                self._decided.put_nowait(decision)
            raise
        await self._hand.drop([lease for lease, _ in decisions])
        self._report(decisions, lost=lost)

    def _report(self, decisions: list[tuple[Lease, Settlement]], *, lost: list[Lease]) -> None:
        self._telemetry.consumed.add(len(decisions) - len(lost), {"group": self.group})
        for lease in lost:
            self._telemetry.log.warning("lease lost, result dropped", group=self.group, entry_id=lease.entry_id)
        for lease, settlement in decisions:
            if isinstance(settlement, GiveUp) and lease not in lost:
                event_id = lease.fields.get(b"id", b"").decode(errors="replace")
                self._telemetry.log.warning("dead letter", group=self.group, event_id=event_id, reason=settlement.reason)

    # Upkeep ----------------------------------------------------------------------------------------------------

    async def _renew(self) -> None:
        lost = await leases.renew(self._acts, reader=self._reader, leases=self._hand.leases)
        # What is being settled at this moment looks lost too; dropping it from the hand only ends its renewal.
        await self._hand.drop(lost)

    async def _promote(self) -> None:
        await promote_due(self._acts, keys=self._keys)

    async def _trim(self) -> None:
        await janitor.trim(self._acts, keys=self._keys)

    async def _show_lag(self) -> None:
        if self._is_declared:
            for at in await read_lag(self._acts, keys=self._keys, group=self.group):
                if at.unsettled is not None:
                    self._telemetry.lag.set(at.unsettled, {"group": self.group, "stream": at.stream})
