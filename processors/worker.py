"""Owns the life of deliveries in one worker: taken in, run, settled; renewed as long as they are in hand.

    intake ──► hand (bounded) ──► pool of attempts ──► settler
                 │ leases renewed by a thread, until settled or overdue

Each loop is guarded: while the log is down they back off and go on. At `stop` the worker takes in no more, finishes what it
has in hand, and ends; what it cannot settle in time stays pending, and another worker claims it.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
from collections.abc import Awaitable, Callable
from pathlib import Path

from infra.clock import Clock
from infra.running.loops import keep_running
from infra.sections import DeadLetterSettings
from infra.settings import LogSettings
from infra.streams.budget import WEIGHTS
from infra.streams.connection import open_pipeline
from infra.streams.holding import ShardHolds
from infra.streams.keys import Keys
from infra.streams.pipelining import Pipeline
from infra.streams.reading import GroupReader, Lease
from infra.streams.settle import RetryLater, Settlement
from infra.telemetry import Telemetry
from processors.batch_attempts import BatchAttempts
from processors.gates import Gates
from processors.holding import HeldReader, Holding
from processors.intake import Intake
from processors.lease_thread import LeaseThread, Leave
from processors.leases import RENEWALS_PER_LEASE, Hand
from processors.letter_cap import LOOK_EVERY_MS, LetterCap
from processors.order import Lanes
from processors.registry import Registry
from processors.settings import GroupSettings
from processors.settler import TOGETHER_S, Settler
from processors.upkeep import Upkeep
from processors.urgent import CLASSES as URGENT
from processors.urgent import UrgentIntake
from schemas.errors import StreamUnavailable

# One is being read, one waits, one runs, and up to three are being settled, which takes the log an fsync.
HELD_BATCHES = 6
TAKE_OVER_EVERY_MS = 500
HEAR_AGAIN_EVERY_MS = 100
ADOPT_EVERY_MS = 20
HOLD_EVERY_MS = 500
TURN_EVERY_MS = 500
TURNS_WITHIN_S = 5.0
DRAIN_WITHIN_S = 20.0


class Worker:
    """One consumer of one group."""

    upkeep: type[Upkeep] = Upkeep

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
        dead_letters: DeadLetterSettings | None = None,
    ) -> None:
        clock = clock or Clock()
        self._settings = settings
        self._telemetry = telemetry
        self._keys = Keys(log.prefix, log.shards)
        # A blocking read holds its connection, so everything else has one of its own.
        self._reads = open_pipeline(log, home=home, wait_ms=settings.block_ms)
        self._acts = open_pipeline(log, home=home)
        self.hand = Hand(HELD_BATCHES * settings.batch_size)
        is_apart = self._reads.one_keyspace and not registry.keeps_order
        self._urgent_reads = open_pipeline(log, home=home, wait_ms=settings.block_ms) if is_apart else None
        self._urgent = self._read_urgent_apart(self._urgent_reads, group=group, consumer=consumer)
        classes = [name for name in WEIGHTS if self._urgent is None or name not in URGENT]
        self._reader = HeldReader(self._reads, keys=self._keys, group=group, consumer=consumer, classes=classes)
        self._holding = self._hold_shards(clock) if registry.keeps_order else None
        dead_letters = dead_letters or DeadLetterSettings()
        self._letter_cap = LetterCap(self._acts, keys=self._keys, group=group, cap=dead_letters.cap, telemetry=telemetry)
        self._intake = Intake(
            self._acts,
            reader=self._reader,
            keys=self._keys,
            hand=self.hand,
            lanes=Lanes(registry) if registry.keeps_order else None,
            holding=self._holding,
            settings=settings,
            letter_cap=self._letter_cap,
            telemetry=telemetry,
            clock=clock,
            urgent=self._urgent,
        )
        self._attempts = BatchAttempts(registry, group=group, hand=self.hand, settings=settings, telemetry=telemetry, clock=clock)
        self._settler = Settler(
            self._acts,
            keys=self._keys,
            group=group,
            consumer=consumer,
            hand=self.hand,
            intake=self._intake,
            telemetry=telemetry,
            # Where order is kept the next one of a lane waits for it.
            together_s=0 if registry.keeps_order else TOGETHER_S,
        )
        self._leases = LeaseThread(
            self.hand,
            reader=self._reader,
            keys=self._keys,
            settings=settings,
            log=log,
            home=home,
            telemetry=telemetry,
            clock=clock,
        )
        self._upkeep = self.upkeep(self._acts, keys=self._keys, group=group, log=log, dead_letters=dead_letters, telemetry=telemetry)
        self._shares_hand = len(registry.specs) > 1
        put_back = self._put_back if self._shares_hand and self._holding is None else None
        self._gates = Gates.of(registry, run=self._run_together, put_back=put_back, settings=settings)
        if self._gates is not None and not self._shares_hand:
            # Whatever is read would only wait at the same gate, and no other worker could run it.
            gates = self._gates
            self._intake.waits_elsewhere = lambda: gates.count
        self._clock = clock
        self._turned_at = clock.monotonic()

    def _read_urgent_apart(self, reads: Pipeline | None, *, group: str, consumer: str) -> UrgentIntake | None:
        if reads is None:
            return None
        reader = GroupReader(reads, keys=self._keys, group=group, consumer=consumer, classes=URGENT)
        return UrgentIntake(reader, hand=self.hand, block_ms=self._settings.block_ms)

    def _hold_shards(self, clock: Clock) -> Holding:
        holds = ShardHolds(self._acts, keys=self._keys, group=self._reader.group, consumer=self._reader.consumer)
        shards, ttl_ms = self._keys.shards, self._settings.lease_ms
        return Holding(holds, reader=self._reader, hand=self.hand, shards=shards, ttl_ms=ttl_ms, clock=clock)

    @property
    def _take_over_every_ms(self) -> int:
        return TAKE_OVER_EVERY_MS if self._holding is None else ADOPT_EVERY_MS

    @property
    def makes_progress(self) -> bool:
        """The log hands us entries, and nothing holds the event loop."""
        return self._intake.is_reading and self._clock.monotonic() - self._turned_at < TURNS_WITHIN_S

    @property
    def has_work(self) -> bool:
        """Something is in hand that will end by itself, or on its way there."""
        return bool(self.hand.renewable(now=self._clock.monotonic())) or self._is_asking

    @property
    def _is_asking(self) -> bool:
        return self._intake.is_asking or (self._urgent is not None and self._urgent.is_asking)

    def charge_overstaying(self) -> None:
        """The last act of a process that leaves: what made it leave has failed an attempt."""
        self._leases.charge_overstaying()

    async def run(self, stop: asyncio.Event, *, leave: Leave | None = None) -> None:
        """Works until `stop` is set, then drains; raises only what an operator must mend.

        `leave` is called once, from a thread, when a processor overstays and only the end of this process can stop it. Without it
        the worker stops, which is all that a test can want.
        """
        drained = asyncio.Event()
        self._leases.start(leave or self._stopping(stop))
        async with asyncio.TaskGroup() as tasks:
            for loop in (
                self._loop("settle", self._settler.settle_decided, until=drained),
                self._loop("turn", self._turn, until=drained, every_ms=TURN_EVERY_MS),
                self._loop("letters", self._letter_cap.look, until=stop, every_ms=LOOK_EVERY_MS),
                *(self._loop(name, chore, until=stop, every_ms=every_ms) for name, chore, every_ms in self._upkeep.chores()),
            ):
                tasks.create_task(loop)
            taking_in = [
                tasks.create_task(self._loop("read", lambda: self._intake.read(stop), until=stop)),
                tasks.create_task(self._loop("hear_again", self._intake.hear_again, until=stop, every_ms=HEAR_AGAIN_EVERY_MS)),
                tasks.create_task(self._loop("take_over", lambda: self._take_over(stop), until=stop, every_ms=self._take_over_every_ms)),
            ]
            if (urgent := self._urgent) is not None:
                taking_in.append(tasks.create_task(self._loop("read_urgent", lambda: urgent.read(stop, intake=self._intake), until=stop)))
            if self._holding is not None:
                every_ms = self._settings.lease_ms // RENEWALS_PER_LEASE
                tasks.create_task(self._loop("hold", self._holding.look, until=drained, every_ms=min(every_ms, HOLD_EVERY_MS)))
            pool = [tasks.create_task(self._run_waiting()) for _ in range(self._settings.concurrency)]
            try:
                await stop.wait()
                await self._drain(taking_in)
            finally:
                drained.set()
                self._leases.stop()
                self._attempts.end()
                for task in (*taking_in, *pool):
                    task.cancel()
                if self._gates is not None:
                    self._gates.close()
        await asyncio.to_thread(self._leases.join)
        if self._holding is not None:
            with contextlib.suppress(StreamUnavailable):  # Then the holds run out by themselves.
                await self._holding.end()
        await self._upkeep.end()
        for pipeline in (self._reads, self._acts, self._urgent_reads):
            if pipeline is not None:
                await pipeline.close()

    def _stopping(self, stop: asyncio.Event) -> Leave:
        loop = asyncio.get_running_loop()

        def leave() -> None:
            self.charge_overstaying()
            loop.call_soon_threadsafe(stop.set)

        return leave

    async def _drain(self, taking_in: list[asyncio.Task[None]]) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(DRAIN_WITHIN_S):
                await asyncio.wait(taking_in)
                await self._intake.let_go_of_held_back()
                await self.hand.wait_until_empty()

    async def _loop(self, name: str, step: Callable[[], Awaitable[None]], *, until: asyncio.Event, every_ms: int = 0) -> None:
        await keep_running(step, name=f"worker.{name}", telemetry=self._telemetry, stop=until, interval_ms=every_ms)

    async def _run_waiting(self) -> None:
        """One member of the pool."""
        waiting, task = self._intake.waiting, asyncio.current_task()
        while True:
            lease = waiting.take() if waiting.count else await waiting.get()
            if not waiting.count:
                self.hand.look_again()  # Nothing is left to run: any room is worth a read now.
            # A lease that was lost while it waited belongs to somebody else, who runs it.
            if not self.hand.holds(lease):
                continue
            if self._holding is not None and not self._holding.holds(lease.shard):
                self.hand.drop([lease])  # It stays pending, for whoever holds the shard.
            elif self._gates is not None and self._gates.take(lease):
                pass  # It runs there, in its turn.
            elif self._attempts.has_open_circuit and (wait_s := self._attempts.wait_s(lease)) > 0:
                self._put_off(lease, wait_s=wait_s)
            else:
                begun = self._attempts.begin(lease, task)
                self._settler.put(lease, settlement=begun if isinstance(begun, Settlement) else await begun)

    def _put_off(self, lease: Lease, *, wait_s: float) -> None:
        """Its processor's circuit is open. It waits in hand, and the log keeps what there is no room for; only where other
        processors would be kept waiting too, it makes room and waits in the log, uncharged."""
        if self._shares_hand and self._holding is None and self._intake.has_many_held_back:
            self._put_back(lease, wait_s=wait_s)
        else:
            self._intake.wait(lease, seconds=wait_s)

    def _put_back(self, lease: Lease, *, wait_s: float) -> None:
        retry_count = int(lease.fields.get(b"retry_count", b"0"))
        self._settler.put(lease, settlement=RetryLater(math.ceil(wait_s * 1000), retry_count=retry_count))

    async def _run_together(self, leases: list[Lease]) -> list[list[Lease]]:
        """What a gate runs: deliveries of one processor, in one call."""
        decisions, again = await self._attempts.decide_together([lease for lease in leases if self._may_run(lease)])
        for lease, settlement in decisions:
            self._settler.put(lease, settlement=settlement)
        return again

    def _may_run(self, lease: Lease) -> bool:
        """As in the pool: much may have happened while it waited at its gate."""
        if not self.hand.holds(lease):
            return False
        if self._holding is not None and not self._holding.holds(lease.shard):
            self.hand.drop([lease])
            return False
        if (wait_s := self._attempts.wait_s(lease)) > 0:
            self._put_off(lease, wait_s=wait_s)
            return False
        return True

    async def _take_over(self, stop: asyncio.Event) -> None:
        if self._holding is not None:
            await self._intake.adopt(self._holding, stop=stop, run_alone=self._run_alone)
        else:
            await self._intake.take_over(stop, run_alone=self._run_alone)

    async def _run_alone(self, lease: Lease) -> None:
        """Until it is settled, so that an entry that kills its process has no company among those taken over."""
        if self._gates is None or not self._gates.take_alone(lease):
            self._settler.put(lease, settlement=await self._attempts.decide(lease), is_awaited=True)
        await self.hand.wait_until_dropped(lease)

    async def _turn(self) -> None:
        self._turned_at = self._clock.monotonic()
