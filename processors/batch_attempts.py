"""Owns the attempts of several deliveries in one call: from the entries' bytes to the decision about each of them."""

from __future__ import annotations

from typing import Any, NamedTuple

from infra.failpoints import reach
from infra.streams.entries import decode
from infra.streams.reading import Lease
from infra.streams.settle import Ack, Decision, Settlement
from processors.attempts import Attempts
from processors.batches import errors_of, halves, worst
from processors.delivery import Delivery
from processors.dispatch import attempt as run_attempt
from processors.plan import Plan
from processors.retry import attempt_number, count_after, describe
from processors.settle import after_attempt, deadly, with_writes
from schemas.event import StreamEvent
from schemas.outcome import Ran


class Member(NamedTuple):
    """A delivery of the batch that is to run."""

    lease: Lease
    event: StreamEvent
    plan: Plan
    delivery: Delivery
    started_at_ms: int
    hold_count: int | None


class BatchAttempts(Attempts):
    """The processors of one group, and how those that take batches are run."""

    def end(self) -> None:
        """The worker ends: attempts that are cancelled from now on are not decided about."""
        self._deadlines.is_over = True

    async def decide_together(self, leases: list[Lease]) -> tuple[list[Decision], list[list[Lease]]]:
        """Runs deliveries of one processor in one call; returns what is decided, and what is to be run again, in which parts.

        Raises nothing: a gate would lose what it had handed out.
        """
        if len(leases) == 1:
            return [(leases[0], await self.decide(leases[0]))], []
        try:
            return await self._decide_together(leases)
        except Exception as error:
            return [(lease, self._unfit(lease, error)) for lease in leases], []

    async def _decide_together(self, leases: list[Lease]) -> tuple[list[Decision], list[list[Lease]]]:
        opened = [(lease, self._opened(lease)) for lease in leases]
        decisions: list[Decision] = [(lease, found) for lease, found in opened if not isinstance(found, Member)]
        members = [found for _, found in opened if isinstance(found, Member)]
        if len(members) < 2:
            return decisions, [[member.lease] for member in members]
        began = self._monotonic()
        error = await self._call(members, began=began)
        errors = errors_of(error, event_ids=[member.event.id for member in members])
        self._report(error if errors is None else worst(errors), plan=members[0].plan)
        if errors is None:
            return decisions, self._halved(members, error=error)
        took_ms = round((self._monotonic() - began) * 1000, 3)
        for one, own in zip(members, errors, strict=True):
            decisions.append((one.lease, self._after(one, error=own, took_ms=took_ms)))
        return decisions, []

    def _opened(self, lease: Lease) -> Member | Settlement:
        try:
            event = decode(lease.fields)
            spec = self._registry.match(event.event_type)
            assert spec is not None, "only deliveries that a processor wants wait at its gate"
        except Exception as error:
            return self._unfit(lease, error)
        plan, now_ms = self._plans[spec.name], self._now_ms()
        number = attempt_number(event.retry_count, lease.delivery_count)
        if number > plan.max_attempts:
            self._pass_by(lease)
            return deadly(processor=plan.name, attempts=number - 1, now_ms=now_ms)
        hold_count = count_after(number, retry_count=event.retry_count) if plan.keeps_order and event.key else None
        return Member(lease, event, plan, Delivery(plan, lease, event.id, number, now_ms), now_ms, hold_count)

    async def _call(self, members: list[Member], *, began: float) -> BaseException | None:
        plan, leases = members[0].plan, [member.lease for member in members]
        for one in members:
            self._hand.begin(one.lease, plan, one.delivery.attempt, began, one.hold_count)
        reach("worker.before_run")
        try:
            with self._hand.in_company(leases):
                return await self._run_batch_in_span(members, plan=plan)
        finally:
            for lease in leases:
                self._hand.end(lease)

    async def _run_batch_in_span(self, members: list[Member], *, plan: Plan) -> BaseException | None:
        """A span of its own, since it belongs to as many traces as there are events."""
        events: Any = [member.event for member in members]
        deliveries: Any = [member.delivery for member in members]
        self._telemetry.leave_trace()
        links = [event.traceparent for event in events if event.traceparent]
        with self._telemetry.span("process", links=links, processor=plan.name, group=self._group, events=len(members)) as span:
            error = await run_attempt(plan.spec, events, deliveries, self._deadlines)
            if error is not None:
                span.set(error=describe(error))
        return error

    def _halved(self, members: list[Member], *, error: BaseException | None) -> list[list[Lease]]:
        plan, event_ids = members[0].plan, [member.delivery.event_id for member in members]
        reason = describe(error) if error is not None else ""
        self._telemetry.log.warning(
            "batch failed, halves are run", group=self._group, processor=plan.name, event_ids=event_ids, error=reason
        )
        for member in members:
            member.delivery.end_once()
        return halves([member.lease for member in members])

    def _after(self, one: Member, *, error: BaseException | None, took_ms: float) -> Settlement:
        ran = Ran(one.event.id, one.plan.name, one.delivery.attempt, one.started_at_ms, took_ms)
        writes = one.delivery.end_once()
        if error is None:
            return with_writes(writes, ran=ran, now_ms=self._now_ms()) if writes else Ack(ran)
        self._telemetry.failed.add(1, self._labels)
        one.delivery.log.warning("attempt failed", processor=one.plan.name, error=describe(error))
        return after_attempt(error, ran=ran, policy=one.plan.policy, now_ms=self._now_ms(), hold_count=one.hold_count)
