"""Owns one delivery's attempt: from the entry's bytes to the decision about it, whatever the bytes or the processor do."""

from __future__ import annotations

from infra.clock import Clock
from infra.failpoints import reach
from infra.streams.entries import decode
from infra.streams.reading import Lease
from infra.streams.settle import Ack, Settlement
from infra.telemetry import Telemetry
from processors.circuit import Circuit
from processors.delivery import Delivery
from processors.dispatch import Deadlines
from processors.dispatch import attempt as run_attempt
from processors.leases import Hand, Running
from processors.registry import ProcessorSpec, Registry
from processors.retry import RetryPolicy, attempt_number, count_after, describe, fence_token
from processors.settings import GroupSettings
from processors.settle import after_attempt, deadly, malformed, parked, undecided, with_writes
from schemas.errors import MalformedEntry, UnknownVersion
from schemas.event import StreamEvent

ACK = Ack()


class Attempts:
    """The processors of one group, and how they are run."""

    def __init__(self, registry: Registry, *, group: str, hand: Hand, settings: GroupSettings, telemetry: Telemetry, clock: Clock) -> None:
        self._registry = registry
        self._group = group
        self._hand = hand
        self._settings = settings
        self._telemetry = telemetry
        self._clock = clock
        self._labels = {"group": group}
        self._deadlines = Deadlines()
        self._told_versions: set[bytes] = set()
        self._circuits = {spec.name: Circuit(settings.circuit_failures, settings.circuit_open_ms / 1000) for spec in registry.specs}
        self._policies = {
            spec.name: RetryPolicy(spec.max_attempts or settings.max_attempts, spec.retry or settings.retry_delays_ms)
            for spec in registry.specs
        }

    def wait_s(self, lease: Lease) -> float:
        """How long the delivery has to wait because its processor's circuit is open; 0 when it may run, and then it must."""
        circuit = self._circuit_of(lease)
        return circuit.wait_s(now=self._clock.monotonic()) if circuit is not None else 0.0

    def _circuit_of(self, lease: Lease) -> Circuit | None:
        spec = self._registry.match(lease.fields.get(b"event_type", b"").decode(errors="replace"))
        return self._circuits[spec.name] if spec is not None else None

    async def decide(self, lease: Lease) -> Settlement:
        """Runs the delivery's processor and says what should become of the delivery; raises nothing."""
        try:
            return await self._decide(lease)
        except UnknownVersion as error:
            self._pass_by(lease)
            self._tell_version(error)
            return parked(lease)
        except MalformedEntry as error:
            self._pass_by(lease)
            self._telemetry.log.error("entry is no event", group=self._group, entry_id=lease.entry_id, reason=str(error))
            return malformed(error, now_ms=self._clock.now_ms())
        except Exception as error:
            self._pass_by(lease)
            # A member of the pool that ends would do so in silence, and the group with it.
            self._telemetry.log.error("entry could not be run", group=self._group, entry_id=lease.entry_id, exc_info=error)
            return undecided(error, now_ms=self._clock.now_ms())

    async def _decide(self, lease: Lease) -> Settlement:
        event = decode(lease.fields)
        spec = self._registry.match(event.event_type)
        if spec is None:
            return ACK
        number = attempt_number(retry_count=event.retry_count, delivery_count=lease.delivery_count)
        policy = self._policies[spec.name]
        if number > policy.max_attempts:
            self._pass_by(lease)
            return deadly(processor=spec.name, attempts=number - 1, now_ms=self._clock.now_ms())
        hold_count = count_after(number, retry_count=event.retry_count) if spec.key and event.key else None
        deadline = self._clock.monotonic() + spec.timeout_ms / 1000
        self._hand.begin(Running(lease, spec.name, number, policy, spec.timeout_ms, deadline, hold_count))
        delivery = self._delivery(event, lease=lease, spec=spec, attempt=number, policy=policy)
        reach("worker.before_run")
        try:
            error = await self._run(event, spec=spec, delivery=delivery)
        finally:
            self._hand.end(lease)
        self._report(error, processor=spec.name)
        writes = delivery.end_once()
        if error is None and not writes:
            return ACK
        now_ms = self._clock.now_ms()
        if error is None:
            return with_writes(writes, event_id=event.id, processor=spec.name, attempt=number, now_ms=now_ms)
        return after_attempt(error, processor=spec.name, attempt=number, policy=policy, now_ms=now_ms, hold_count=hold_count)

    def _pass_by(self, lease: Lease) -> None:
        """It was let through and never ran: the next one has to tell whether the outage is over."""
        if (circuit := self._circuit_of(lease)) is not None:
            circuit.pass_by()

    def _tell_version(self, error: UnknownVersion) -> None:
        """Once for each version: while workers of two releases run, every other event may be one."""
        if (version := error.fields[b"version"]) not in self._told_versions:
            self._told_versions.add(version)
            self._telemetry.log.warning("entries of an unknown version are parked", group=self._group, reason=str(error))

    def _report(self, error: BaseException | None, *, processor: str) -> None:
        if news := self._circuits[processor].report(error, now=self._clock.monotonic()):
            self._telemetry.log.warning(f"circuit {news}", group=self._group, processor=processor)

    def _delivery(self, event: StreamEvent, *, lease: Lease, spec: ProcessorSpec, attempt: int, policy: RetryPolicy) -> Delivery:
        return Delivery(
            group=self._group,
            processor=spec.name,
            attempt=attempt,
            max_attempts=policy.max_attempts,
            deadline_ms=self._clock.now_ms() + spec.timeout_ms,
            event_id=event.id,
            fence_token=fence_token(entry_id=lease.entry_id, delivery_count=lease.delivery_count),
            _log=self._telemetry.log,
        )

    async def _run(self, event: StreamEvent, *, spec: ProcessorSpec, delivery: Delivery) -> BaseException | None:
        labels, began = self._labels, self._clock.monotonic()
        with self._telemetry.span(
            "process", traceparent=event.traceparent, processor=spec.name, event_id=event.id, attempt=delivery.attempt, **labels
        ) as span:
            error = await run_attempt(spec, event=event, delivery=delivery, deadlines=self._deadlines)
            if error is not None:
                span.set(error=describe(error))
                self._telemetry.failed.add(1, labels)
                delivery.log.warning("attempt failed", processor=spec.name, error=describe(error))
        self._telemetry.duration.record(self._clock.monotonic() - began, labels)
        return error
