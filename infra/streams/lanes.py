"""Owns the several connections that a receiver has to its log: each batch of events takes one that is free.

A server reads some 16 KB of a connection, carries out what it has read, syncs, and looks at its connections again. Over one
connection it would sync once for every few webhooks; over several it syncs once for what all of them have brought.
Events whose senders wait for their answers at the same time have no order among them, so that it does not matter whose lane is faster;
what does have one, as the events of a source in a spool, keeps to the first lane.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from operator import attrgetter
from pathlib import Path

from infra.settings import LogSettings
from infra.streams.connection import open_pipeline
from infra.streams.incarnations import Incarnations
from infra.streams.keys import Keys
from infra.streams.pipelining import Pipeline

LANES = 4
_calls = attrgetter("calls")


class Generations(Iterator[int]):
    """Numbers connections in the order in which they are made."""

    def __init__(self) -> None:
        self.newest = 0
        """0 before the first."""

    def __next__(self) -> int:
        self.newest += 1
        return self.newest


class Lane:
    """One way to the log, and what was learnt on it."""

    __slots__ = ("calls", "incarnations", "pipeline")

    def __init__(self, pipeline: Pipeline, *, keys: Keys) -> None:
        self.pipeline = pipeline
        self.incarnations = Incarnations(pipeline, keys=keys)
        self.calls = 0
        """How many wait for their answer."""


class Lanes:
    """All lanes of a process. No two connections of all of them have the same generation."""

    def __init__(self, log: LogSettings, *, home: Path, keys: Keys) -> None:
        self.generations = Generations()
        # A server carries out nothing of a connection that asks for replicas: one question for all is cheaper than one for each lane.
        many = 1 if log.durability == "replicated" else LANES
        self._lanes = [Lane(open_pipeline(log, home=home, generations=self.generations), keys=keys) for _ in range(many)]
        self.one_keyspace = self.first.one_keyspace

    @property
    def first(self) -> Pipeline:
        """For all that is asked seldom."""
        return self._lanes[0].pipeline

    def freest(self) -> Lane:
        """The first that nobody waits on, so that one is enough for little traffic; else the one that fewest wait on."""
        return min(self._lanes, key=_calls)

    @contextmanager
    def one(self, *, in_order: bool) -> Iterator[Lane]:
        """One to wait on, while it counts as waited on."""
        lane = self._lanes[0] if in_order else self.freest()
        lane.calls += 1
        try:
            yield lane
        finally:
            lane.calls -= 1

    async def close(self) -> None:
        for lane in self._lanes:
            await lane.pipeline.close()
