"""Owns carrying decisions out: many in one call per stream, all streams at once, kept until the log has confirmed them."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Awaitable, Callable

from infra.streams.keys import Keys
from infra.streams.pipelining import Pipeline
from infra.streams.settle import GiveUp, HoldBack, Settlement, settle
from infra.streams.stream import Lease
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
        self._decided: asyncio.Queue[Decision] = asyncio.Queue()

    def put(self, lease: Lease, *, settlement: Settlement) -> None:
        self._decided.put_nowait((lease, settlement))

    async def settle_decided(self) -> None:
        """Everything that is decided by now; the next round takes what comes meanwhile. Raises StreamUnavailable."""
        try:
            decisions = [await asyncio.wait_for(self._decided.get(), timeout=IDLE_S)]
        except TimeoutError:
            return
        while not self._decided.empty():
            decisions.append(self._decided.get_nowait())
        decisions.sort(key=lambda decision: decision[0].stream)
        by_stream = [list(of_stream) for _, of_stream in itertools.groupby(decisions, key=lambda decision: decision[0].stream)]
        results = await asyncio.gather(*(self._settle(of_stream) for of_stream in by_stream), return_exceptions=True)
        for result in results:
            if isinstance(result, BaseException):
                raise result

    async def _settle(self, decisions: list[Decision]) -> None:
        try:
            lost = await settle(self._acts, keys=self._keys, group=self._group, consumer=self._consumer, decisions=decisions)
        except BaseException:
            # Not known whether it was carried out; asking again is harmless, since what is settled is no longer ours.
            for lease, settlement in decisions:
                self.put(lease, settlement=settlement)
            raise
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
            event_id = lease.fields.get(b"id", b"").decode(errors="replace")
            if id(lease) in lost:
                self._telemetry.log.warning("lease lost, result dropped", group=self._group, event_id=event_id)
            elif isinstance(settlement, GiveUp):
                self._telemetry.log.warning("dead letter", group=self._group, event_id=event_id, reason=settlement.reason)
