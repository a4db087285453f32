"""Owns one delivery's attempt: from the entry's bytes to the decision about it, whatever the bytes or the processor do."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Coroutine
from typing import Any

from infra.clock import Clock
from infra.failpoints import reach
from infra.streams.reading import Lease
from infra.streams.settle import Ack, Settlement, acked
from infra.streams.unread import glance
from infra.telemetry import Telemetry
from processors.circuit import Circuit
from processors.delivery import Delivery
from processors.dispatch import Deadlines, finish, start
from processors.dispatch import attempt as run_attempt
from processors.leases import Hand, Running
from processors.plan import Plan, plans
from processors.registry import Registry
from processors.retry import attempt_number, count_after, describe
from processors.settings import GroupSettings
from processors.settle import after_attempt, deadly, malformed, parked, undecided, with_writes
from schemas.errors import MalformedEntry, UnknownVersion
from schemas.event import StreamEvent
from schemas.outcome import Ran, ran


class Attempts:
    """The processors of one group, and how they are run."""

    def __init__(self, registry: Registry, *, group: str, hand: Hand, settings: GroupSettings, telemetry: Telemetry, clock: Clock) -> None:
        self._registry = registry
        self._group = group
        self._hand = hand
        self._telemetry = telemetry
        self._clock = clock
        self._now_ms, self._monotonic = clock.now_ms, clock.monotonic
        self._records_spans, self._go_on = telemetry.records_spans, telemetry.go_on
        self._labels = {"group": group}
        self._deadlines = Deadlines()
        self._told_versions: set[bytes] = set()
        self._plans = plans(registry.specs, group=group, settings=settings, log=telemetry.log)
        self.has_open_circuit = False

    def wait_s(self, lease: Lease) -> float:
        """How long the delivery has to wait because its processor's circuit is open; 0 when it may run, and then it must."""
        circuit = self._circuit_of(lease)
        return circuit.wait_s(now=self._clock.monotonic()) if circuit is not None else 0.0

    def _circuit_of(self, lease: Lease) -> Circuit | None:
        spec = self._registry.match(lease.fields.get(b"event_type", b"").decode(errors="replace"))
        return self._plans[spec.name].circuit if spec is not None else None

    async def decide(self, lease: Lease) -> Settlement:
        """Runs the delivery's processor and says what should become of the delivery; raises nothing."""
        begun = self.begin(lease, asyncio.current_task())
        return begun if isinstance(begun, Settlement) else await begun

    def begin(self, lease: Lease, task: asyncio.Task[Any] | None) -> Settlement | Coroutine[Any, Any, Settlement]:
        """The same as a plain call in the running task: most attempts end without waiting for anything, and that is their settlement;
        the others, begun as well, have to be awaited. Raises nothing, either way."""
        try:
            event = glance(lease.flat)
            spec = self._registry.match(event.event_type)
            if spec is None:
                return Ack(Ran(event.id, "", 1, self._now_ms(), 0.0))
            plan = self._plans[spec.name]
            number = attempt_number(event.retry_count, lease.delivery_count)
            if number > plan.max_attempts:
                self._pass_by(lease)
                return deadly(processor=plan.name, attempts=number - 1, now_ms=self._now_ms())
            hold_count = count_after(number, retry_count=event.retry_count) if plan.keeps_order and event.key else None
            delivery = Delivery(plan, lease, event.id, number, self._now_ms())
            return self._begin(event, delivery, self._hand.begin(lease, plan, number, self._monotonic(), hold_count), task)
        except Exception as error:
            self._hand.end(lease)  # or it would be taken for one that overstays
            return self._unfit(lease, error)

    def _begin(
        self, event: StreamEvent, delivery: Delivery, running: Running, task: asyncio.Task[Any] | None
    ) -> Settlement | Coroutine[Any, Any, Settlement]:
        reach("worker.before_run")
        plan = running.plan
        if self._records_spans or not plan.is_async:
            return self._awaited(self._run_in_span(event, delivery=delivery, plan=plan), delivery, running)
        self._go_on(event.traceparent)
        outcome = start(plan.spec, event, delivery, task)
        if outcome is None or isinstance(outcome, BaseException):
            return self._ended(outcome, delivery, running)
        return self._awaited(finish(plan.spec, outcome, self._deadlines), delivery, running)

    async def _awaited(self, ending: Awaitable[BaseException | None], delivery: Delivery, running: Running) -> Settlement:
        try:
            return self._ended(await ending, delivery, running)
        except Exception as error:
            return self._unfit(running.lease, error)
        finally:
            self._hand.end(running.lease)  # also when this worker ends meanwhile

    def _ended(self, error: BaseException | None, delivery: Delivery, running: Running) -> Settlement:
        lease, plan, number, began, hold_count = running
        self._hand.end(lease)
        took_ms = round((self._monotonic() - began) * 1000, 3)
        ended = ran((delivery.event_id, plan.name, number, delivery.started_at_ms, took_ms))
        writes = delivery.end_once()
        if error is None:
            if plan.circuit.failures:
                self._report(None, plan=plan)
            return with_writes(writes, ran=ended, now_ms=self._now_ms()) if writes else acked((ended,))
        if isinstance(error, MalformedEntry):
            return self._unfit(lease, error)  # It looked at a field that cannot be read: no fault of the processor.
        self._tell(error, delivery=delivery, plan=plan)
        return after_attempt(error, ran=ended, policy=plan.policy, now_ms=self._now_ms(), hold_count=hold_count)

    def _unfit(self, lease: Lease, error: Exception) -> Settlement:
        """What becomes of a delivery that cannot run."""
        self._pass_by(lease)
        if isinstance(error, UnknownVersion):
            self._tell_version(error)
            return parked(lease)
        if isinstance(error, MalformedEntry):
            self._telemetry.log.error("entry is no event", group=self._group, entry_id=lease.entry_id, reason=str(error))
            return malformed(error, now_ms=self._clock.now_ms())
        # A member of the pool that ends would do so in silence, and the group with it.
        self._telemetry.log.error("entry could not be run", group=self._group, entry_id=lease.entry_id, exc_info=error)
        return undecided(error, now_ms=self._clock.now_ms())

    async def _run_in_span(self, event: StreamEvent, *, delivery: Delivery, plan: Plan) -> BaseException | None:
        number, group = delivery.attempt, self._group
        with self._telemetry.span(
            "process", traceparent=event.traceparent, processor=plan.name, event_id=event.id, attempt=number, group=group
        ) as span:
            error = await run_attempt(plan.spec, event, delivery, self._deadlines)
            if error is not None:
                span.set(error=describe(error))
        return error

    def _tell(self, error: BaseException, *, delivery: Delivery, plan: Plan) -> None:
        self._telemetry.failed.add(1, self._labels)
        delivery.log.warning("attempt failed", processor=plan.name, error=describe(error))
        self._report(error, plan=plan)

    def _pass_by(self, lease: Lease) -> None:
        """It was let through and never ran: the next one has to tell whether the outage is over."""
        if (circuit := self._circuit_of(lease)) is not None:
            circuit.pass_by()

    def _tell_version(self, error: UnknownVersion) -> None:
        """Once for each version: while workers of two releases run, every other event may be one."""
        if (version := error.fields[b"version"]) not in self._told_versions:
            self._told_versions.add(version)
            self._telemetry.log.warning("entries of an unknown version are parked", group=self._group, reason=str(error))

    def _report(self, error: BaseException | None, *, plan: Plan) -> None:
        if news := plan.circuit.report(error, now=self._clock.monotonic()):
            self._telemetry.log.warning(f"circuit {news}", group=self._group, processor=plan.name)
            self.has_open_circuit = any(one.circuit.is_open for one in self._plans.values())
