"""Owns the urgent streams of a worker: a read that waits there on a connection of its own, and is answered as soon as there is anything.

A worker in the middle of much work looks at its other streams when it has room for more. By then the log has other things to do for it,
and an urgent event would wait for all of them.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from infra.failpoints import reach
from infra.running.loops import wait_or_stop
from infra.streams.reading import GroupReader
from processors.leases import Hand
from schemas.errors import StreamUnavailable

if TYPE_CHECKING:  # It hands on to an intake, which knows of it.
    from processors.intake import Intake

CLASSES = ("urgent",)
NOT_NOW_S = 0.02


class UrgentIntake:
    """One loop of one worker. Not for groups that keep order, nor on a cluster: there one reader must know of all reads under way."""

    def __init__(self, reader: GroupReader, *, hand: Hand, block_ms: int) -> None:
        self._reader = reader
        self._hand = hand
        self._block_ms = block_ms
        self.has_unheard = False
        """The log may have handed us urgent entries in a reply that never came."""
        self.is_asking = False

    async def read(self, stop: asyncio.Event, *, intake: Intake) -> None:
        """Reads as long as there are any, and waits for the next. Raises StreamUnavailable."""
        if not intake.is_prepared or intake.urgent_budget() < 1:
            await wait_or_stop(stop, NOT_NOW_S)
            return
        self.is_asking = True
        try:
            await self._read(intake)
        except StreamUnavailable as error:
            self.has_unheard = True
            intake.heed(error)
            raise
        finally:
            self.is_asking = False

    async def _read(self, intake: Intake) -> None:
        if self.has_unheard:
            await intake.take_unheard(self._reader)
            self.has_unheard = False
        budget = max(1, intake.urgent_budget())
        with self._hand.promised(budget):
            found = await self._reader.wait(budget=budget, block_ms=self._block_ms)
        if found:
            reach("worker.after_read")
            intake.enqueue_urgent(found)
