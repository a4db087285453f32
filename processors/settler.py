"""Owns carrying decisions out: many in one call per stream, all streams at once, kept until the log has confirmed them."""

from __future__ import annotations

import asyncio
import contextlib
import math

from infra.failpoints import reach
from infra.streams.keys import Keys
from infra.streams.pipelining import Pipeline
from infra.streams.reading import Lease
from infra.streams.settle import Ack, Decision, GiveUp, HoldBack, Settlement, by_stream, settle_in_stream
from infra.telemetry import Telemetry
from processors.intake import Intake
from processors.leases import Hand

IDLE_S = 0.1
# A call costs the log as much as several deliveries in it, and nobody waits for it: few decisions gather for a moment.
TOGETHER_S = 0.01
ENOUGH = 64
PARTLY_FAILED_S = 0.1


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
        intake: Intake,
        telemetry: Telemetry,
        together_s: float = TOGETHER_S,
    ) -> None:
        """`intake` gets back what was settled by staying where it is; `together_s` is for how long decisions may gather."""
        self._acts = acts
        self._keys = keys
        self._group = group
        self._consumer = consumer
        self._hand = hand
        self._intake = intake
        self._telemetry = telemetry
        self._together_s = together_s
        self._began_at = -math.inf
        self._decided: list[Decision] = []
        self._has_decided = asyncio.Event()
        self._is_awaited = asyncio.Event()

    def put(self, lease: Lease, *, settlement: Settlement, is_awaited: bool = False) -> None:
        """With `is_awaited` somebody does nothing else before it is settled."""
        self._decided.append((lease, settlement))
        if len(self._decided) == 1:
            self._has_decided.set()
        if is_awaited or len(self._decided) == ENOUGH:
            self._is_awaited.set()

    async def settle_decided(self) -> None:
        """Everything that is decided by now; the next round takes what comes meanwhile. Raises StreamUnavailable."""
        if not self._decided:
            try:
                await asyncio.wait_for(self._has_decided.wait(), timeout=IDLE_S)
            except TimeoutError:
                return
        await self._let_some_gather()
        decisions, self._decided = self._decided, []
        self._has_decided.clear()
        self._is_awaited.clear()
        results = await asyncio.gather(*(self._settle(chosen) for chosen in by_stream(decisions).values()), return_exceptions=True)
        failures = [result for result in results if isinstance(result, BaseException)]
        if failures and len(failures) == len(results):
            raise failures[0]
        if failures:
            # A node of a cluster is down: the shards of the others need not wait as long as an outage of the log makes us wait.
            await asyncio.sleep(PARTLY_FAILED_S)

    async def _let_some_gather(self) -> None:
        """Unless enough have, or somebody waits; the first after a while is settled at once."""
        loop = asyncio.get_running_loop()
        rest_s = self._began_at + self._together_s - loop.time()
        if rest_s > 0 and not self._is_awaited.is_set():
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._is_awaited.wait(), timeout=rest_s)
        self._began_at = loop.time()

    async def _settle(self, decisions: list[Decision]) -> None:
        reach("worker.before_settle")
        try:
            lost = await settle_in_stream(self._acts, keys=self._keys, group=self._group, consumer=self._consumer, decisions=decisions)
        except BaseException:
            # Not known whether it was carried out; asking again is harmless, since what is settled is no longer ours.
            for lease, settlement in decisions:
                self.put(lease, settlement=settlement)
            raise
        reach("worker.after_settle")
        lost_ids = {id(lease) for lease in lost}
        # Nearly all are acks, about which there is nothing more to do or say.
        noteworthy = [one for one in decisions if type(one[1]) is not Ack]
        for lease, settlement in noteworthy:
            if isinstance(settlement, HoldBack) and id(lease) not in lost_ids:
                await self._intake.hold_back(lease, settlement)
        # What is held back is in hand under another count by now, and stays.
        self._hand.drop([lease for lease, _ in decisions])
        self._intake.settled(len(decisions))
        ran_s = [settlement.ran.duration_ms / 1000 for _, settlement in decisions if settlement.ran is not None]
        self._telemetry.duration.record(*ran_s, group=self._group)
        self._telemetry.consumed.add(len(decisions) - len(lost), {"group": self._group})
        self._tell_of(noteworthy, lost=lost)

    def _tell_of(self, decisions: list[Decision], *, lost: list[Lease]) -> None:
        for lease in lost:
            self._telemetry.log.warning("lease lost, result dropped", group=self._group, event_id=_event_id(lease))
        lost_ids = {id(lease) for lease in lost}
        for lease, settlement in decisions:
            if isinstance(settlement, GiveUp) and id(lease) not in lost_ids:
                self._telemetry.log.warning("dead letter", group=self._group, event_id=_event_id(lease), reason=settlement.reason)


def _event_id(lease: Lease) -> str:
    return lease.fields.get(b"id", b"").decode(errors="replace")
