"""Owns the gates: deliveries of a processor with `batch` or `concurrency` wait here, out of the way of all others.

A gate has places of its own beside the worker's pool, so that deliveries of other processors pass by. It starts a task when there
is something to run and a place for it; the task goes on as long as there is more.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Protocol

from infra.streams.reading import Lease
from processors.registry import Registry
from processors.settings import GroupSettings

Part = list[Lease]
"""Deliveries that run together."""
Run = Callable[[Part], Awaitable[list[Part]]]
"""Runs some, and says which are to be run again, and with whom."""


class PutBack(Protocol):
    """Lets a delivery wait in the log, uncharged."""

    def __call__(self, lease: Lease, *, wait_s: float) -> None: ...


SHORTEST_WAIT_S = 1.0
LONGEST_WAIT_S = 60.0


class Gate:
    """One processor's; used by one event loop."""

    def __init__(self, run: Run, places: int, batch: int = 1, *, batch_wait_ms: int = 0, crowd: int = 1000) -> None:
        """`crowd` is how many may wait here before others should rather wait in the log."""
        self._run = run
        self._places = places
        self._batch = batch
        self._batch_wait_s = batch_wait_ms / 1000
        self._crowd = crowd
        self._waiting: deque[Lease] = deque()
        self._again: deque[Part] = deque()
        self._tasks: set[asyncio.Task[None]] = set()
        self._timer: asyncio.TimerHandle | None = None
        self._is_time = False
        self._mean_s = 0.0

    def put(self, lease: Lease) -> None:
        self._waiting.append(lease)
        self._look()

    def put_alone(self, lease: Lease) -> None:
        """It runs next, and in no company."""
        self._again.append([lease])
        self._look()

    @property
    def count(self) -> int:
        """How many wait here."""
        return len(self._waiting)

    @property
    def wait_s(self) -> float:
        """0 while there is room to wait here; else about how long it takes until those are run who do."""
        if len(self._waiting) < self._crowd:
            return 0.0
        calls = len(self._waiting) / (self._batch * self._places)
        return min(LONGEST_WAIT_S, max(SHORTEST_WAIT_S, calls * self._mean_s))

    def _look(self) -> None:
        if len(self._tasks) < self._places and self._is_ready():
            self._tasks.add(asyncio.get_running_loop().create_task(self._work()))

    def _is_ready(self) -> bool:
        """Whether something is to run now; what waits for company is looked at again in time."""
        if self._again or len(self._waiting) >= self._batch or (self._is_time and self._waiting):
            return True
        if self._waiting and self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(self._batch_wait_s, self._time_is_up)
        return False

    def _time_is_up(self) -> None:
        self._timer, self._is_time = None, True
        self._look()

    async def _work(self) -> None:
        loop, task = asyncio.get_running_loop(), asyncio.current_task()
        try:
            while self._is_ready():
                part, began = self._next(), loop.time()
                # Where more is to run than this task has taken, the next place is for it.
                loop.call_soon(self._look)
                self._again += await self._run(part)
                self._mean_s += (loop.time() - began - self._mean_s) / 8
        finally:
            # Here and not when the task is done, or whoever comes in between would find no place and nobody to wait for.
            self._tasks.discard(task)

    def _next(self) -> Part:
        if self._again:
            return self._again.popleft()
        if self._timer is not None:
            self._timer.cancel()
        self._timer, self._is_time = None, False
        return [self._waiting.popleft() for _ in range(min(self._batch, len(self._waiting)))]

    def close(self) -> None:
        """Stops at once; what runs is cancelled, and stays pending."""
        if self._timer is not None:
            self._timer.cancel()
        for task in self._tasks:
            task.cancel()


class Gates:
    """The gates of one worker, by the names of their processors."""

    def __init__(self, registry: Registry, *, gates: dict[str, Gate], put_back: PutBack | None) -> None:
        self._registry = registry
        self._gates = gates
        self._put_back = put_back

    @classmethod
    def of(cls, registry: Registry, *, run: Run, put_back: PutBack | None, settings: GroupSettings) -> Gates | None:
        """None where no processor has one. `put_back` lets a delivery wait in the log, for which there must be a reason."""
        gates = {}
        for spec in registry.specs:
            places, batch = spec.concurrency or settings.concurrency, spec.batch or 1
            crowd = max(settings.batch_size // 2, 2 * batch)
            if spec.has_gate:
                gates[spec.name] = Gate(run, places, batch, batch_wait_ms=spec.batch_wait_ms, crowd=crowd)
        return cls(registry, gates=gates, put_back=put_back) if gates else None

    def take(self, lease: Lease) -> bool:
        """Whether it has a gate, and so is taken care of."""
        gate = self._gate_of(lease)
        if gate is None:
            return False
        if self._put_back is not None and (wait_s := gate.wait_s) > 0:
            self._put_back(lease, wait_s=wait_s)
        else:
            gate.put(lease)
        return True

    @property
    def count(self) -> int:
        """How many wait at all gates."""
        return sum(gate.count for gate in self._gates.values())

    def take_alone(self, lease: Lease) -> bool:
        """The same for one that may have ended a process, and must have no company."""
        if (gate := self._gate_of(lease)) is None:
            return False
        gate.put_alone(lease)
        return True

    def _gate_of(self, lease: Lease) -> Gate | None:
        spec = self._registry.match(lease.fields.get(b"event_type", b"").decode(errors="replace"))
        return self._gates.get(spec.name) if spec is not None else None

    def close(self) -> None:
        for gate in self._gates.values():
            gate.close()
