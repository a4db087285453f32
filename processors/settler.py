"""Owns carrying decisions out: many in one call per stream, all streams at once, kept until the log has confirmed them."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from infra.failpoints import reach
from infra.streams.keys import Keys
from infra.streams.pipelining import Pipeline
from infra.streams.reading import Lease
from infra.streams.settle import GiveUp, HoldBack, Settlement, by_stream, settle
from infra.telemetry import Telemetry
from processors.leases import Hand

Decision = tuple[Lease, Settlement]
IDLE_S = 0.1


class Settler:
    """The decisions of one worker that are not yet carried out."""

    def __init__(
        self,
        acts: Pipeline,
        *,
        keys: Keys,
        group: str,
        consumer: str,
        hand: Hand,
        hold_back: Callable[[Lease, HoldBack], Awaitable[None]],
        telemetry: Telemetry,
    ) -> None:
        """`hold_back` gets what was settled by staying where it is."""
        self._acts = acts
        self._keys = keys
        self._group = group
        self._consumer = consumer
        self._hand = hand
        self._hold_back = hold_back
        self._telemetry = telemetry
        self._decided: list[Decision] = []
        self._has_decided = asyncio.Event()

    def put(self, lease: Lease, *, settlement: Settlement) -> None:
        self._decided.append((lease, settlement))
        if len(self._decided) == 1:
            self._has_decided.set()

    async def settle_decided(self) -> None:
        """Everything that is decided by now; the next round takes what comes meanwhile. Raises StreamUnavailable."""
        if not self._decided:
            try:
                await asyncio.wait_for(self._has_decided.wait(), timeout=IDLE_S)
            except TimeoutError:
                return
        decisions, self._decided = self._decided, []
        self._has_decided.clear()
        results = await asyncio.gather(*(self._settle(chosen) for chosen in by_stream(decisions).values()), return_exceptions=True)
        for result in results:
            if isinstance(result, BaseException):
                raise result

    async def _settle(self, decisions: list[Decision]) -> None:
        reach("worker.before_settle")
        try:
            lost = await settle(self._acts, keys=self._keys, group=self._group, consumer=self._consumer, decisions=decisions)
        except BaseException:
            # Not known whether it was carried out; asking again is harmless, since what is settled is no longer ours.
            for lease, settlement in decisions:
                self.put(lease, settlement=settlement)
            raise
        reach("worker.after_settle")
        lost_ids = {id(lease) for lease in lost}
        for lease, settlement in decisions:
            if isinstance(settlement, HoldBack) and id(lease) not in lost_ids:
                await self._hold_back(lease, settlement)
        # What is held back is in hand under another count by now, and stays.
        await self._hand.drop([lease for lease, _ in decisions])
        self._report(decisions, lost=lost_ids)

    def _report(self, decisions: list[Decision], *, lost: set[int]) -> None:
        self._telemetry.consumed.add(len(decisions) - len(lost), {"group": self._group})
        for lease, settlement in decisions:
            if id(lease) in lost:
                self._telemetry.log.warning("lease lost, result dropped", group=self._group, event_id=_event_id(lease))
            elif isinstance(settlement, GiveUp):
                self._telemetry.log.warning("dead letter", group=self._group, event_id=_event_id(lease), reason=settlement.reason)


def _event_id(lease: Lease) -> str:
    return lease.fields.get(b"id", b"").decode(errors="replace")
