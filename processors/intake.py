"""Owns what comes into a worker's hand: new entries, entries of a reply that was lost, and what others left behind."""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from collections.abc import Awaitable, Callable

from infra.clock import Clock
from infra.failpoints import reach
from infra.running.loops import wait_or_stop
from infra.streams import groups, leases
from infra.streams.keys import Keys
from infra.streams.leases import Place
from infra.streams.pipelining import Pipeline
from infra.streams.reading import GroupReader, Lease
from infra.streams.settle import HoldBack, settle
from infra.telemetry import Telemetry
from processors.fairness import FairQueue
from processors.holding import Holding
from processors.leases import Hand
from processors.letter_cap import LOOK_EVERY_MS, LetterCap
from processors.order import Lanes
from processors.pace import HELD_BYTES, Pace
from processors.settings import GroupSettings
from processors.urgent import UrgentIntake
from schemas.errors import StreamUnavailable

# While the hand is too full for an ordinary read, urgent entries are looked for so often: much oftener where the worker is quick,
# and its full hand will soon have been run; a slow one must not spend its time on looking.
URGENT_EVERY_S = 0.02
URGENT_WHEN_QUICK_S = 0.002
NO_ROOM_S = 0.1


class Intake:
    """Two loops of one worker: `read` fills the pool's queue, `take_over` runs what it claims alone."""

    def __init__(
        self,
        acts: Pipeline,
        *,
        reader: GroupReader,
        keys: Keys,
        hand: Hand,
        lanes: Lanes | None,
        holding: Holding | None,
        settings: GroupSettings,
        letter_cap: LetterCap,
        telemetry: Telemetry,
        clock: Clock,
        urgent: UrgentIntake | None = None,
    ) -> None:
        """With `urgent` the urgent streams are read there, and not here."""
        self._acts = acts
        self._urgent = urgent
        self._reader = reader
        self._keys = keys
        self._hand = hand
        self._settings = settings
        self._letter_cap = letter_cap
        self._telemetry = telemetry
        self._clock = clock
        self._is_declared = False
        self._leftovers: deque[Place] | None = None
        self._has_unheard = False
        # Whoever takes holds it until the lease is in the hand: otherwise the other loop would take the same delivery again.
        self._taking = asyncio.Lock()
        self._lanes = lanes
        self._holding = holding
        self._pace = Pace(least=settings.concurrency, most=settings.batch_size)
        self._timers: dict[int, tuple[asyncio.TimerHandle, Lease]] = {}
        self._is_ending = False
        hand.on_drop = self._make_way if lanes is not None else None
        self.waiting = FairQueue()
        self.waits_elsewhere: Callable[[], int] = lambda: 0
        """How many more wait for a place to run, so that nothing else needs to be read."""
        self.is_reading = False
        """True after a read succeeded and until one fails: readiness means progress."""
        self.is_asking = False
        """True while the log may be handing us entries."""

    async def read(self, stop: asyncio.Event) -> None:
        """Reads new entries, one batch ahead of what is running, as long as there are any.

        Without a pause in between: the next read is on its way before anything that came is run, so that the log works while
        processors do.
        """
        while await self._read_once(stop) and not stop.is_set():
            pass

    async def _read_once(self, stop: asyncio.Event) -> bool:
        """Whether anything came."""
        if self._letter_cap.is_reached:
            self.is_reading = False
            await wait_or_stop(stop, LOOK_EVERY_MS / 1000)
            return False
        has_room = await self._hand.wait_until(self._wants_more, within_s=self._look_again_within_s())
        if stop.is_set() or not (has_room or (self._urgent is None and self._hand.room)):
            return False
        self.is_asking = True
        try:
            await self._prepare()
            if has_room:
                found = await self._reader.read(budget=self._budget(), block_ms=self._settings.block_ms)
            else:
                found = await self._reader.read_urgent(budget=self._hand.room)
            if found:
                reach("worker.after_read")
                self.enqueue(found)
        except StreamUnavailable as error:
            self.is_reading = False
            self._has_unheard = True
            self.heed(error)
            raise
        finally:
            self.is_asking = False
        self.is_reading = not self._reader.hears_nobody
        return bool(found)

    def heed(self, error: StreamUnavailable) -> None:
        """After a flush or a failover the group may be gone: it is declared again before the next read."""
        self._is_declared = self._is_declared and "NOGROUP" not in str(error)

    @property
    def is_prepared(self) -> bool:
        """The group exists, and what an earlier life of this worker left is noted: from here on anything may be read."""
        return self._is_declared and self._leftovers is not None and not self._letter_cap.is_reached

    def urgent_budget(self) -> int:
        """How many urgent entries may be asked for; 0 while they could only wait."""
        batch = self._pace.batch(now=self._clock.monotonic())
        if self.waits_elsewhere() > batch or self._hand.body_bytes >= HELD_BYTES:
            return 0
        return min(batch, self._hand.room, max(1, self._hand.reserve))

    def _look_again_within_s(self) -> float:
        if self._urgent is not None:
            return NO_ROOM_S
        return URGENT_WHEN_QUICK_S if self._pace.is_quick(now=self._clock.monotonic()) else URGENT_EVERY_S

    def _wants_more(self) -> bool:
        """There is room for a whole batch (few large reads cost less than many small), or for any and nothing left to run."""
        batch, ahead = self._pace.batch(now=self._clock.monotonic()), self.waiting.count + self.waits_elsewhere()
        return ahead <= batch and self._hand.body_bytes < HELD_BYTES and self._hand.ordinary_room >= (batch if ahead else 1)

    def _budget(self) -> int:
        return min(self._pace.batch(now=self._clock.monotonic()), self._hand.ordinary_room)

    def settled(self, count: int) -> None:
        """So many deliveries have left the hand: what is taken next goes by it."""
        self._pace.settled(count, now=self._clock.monotonic())

    async def _prepare(self) -> None:
        if not self._is_declared:
            kind, ttl_ms = self._settings.kind, self._settings.ttl_ms
            created = await groups.declare(self._acts, keys=self._keys, group=self._reader.group, kind=kind, ttl_ms=ttl_ms)
            self._is_declared = True
            if created:
                self._telemetry.log.info("group created on streams that lacked it", group=self._reader.group, streams=created)
        if self._leftovers is None:
            # Noted before the first read: from then on this name also holds what this life takes.
            self._leftovers = deque(await leases.held_places(self._acts, reader=self._reader))
        if self._has_unheard and self._holding is not None:
            self._holding.adopt_again()
            self._has_unheard = False
        elif self._has_unheard:
            await self.take_unheard(self._reader)
            self._has_unheard = False

    async def take_unheard(self, reader: GroupReader, *, shard: int | None = None) -> None:
        """After an error: what the server handed to us in a reply that never came, where nobody but `reader` reads."""
        besides = self._leftovers or ()
        async with self._taking:
            for place in await leases.held_places(self._acts, reader=reader, shard=shard, streams=reader.own_streams):
                if place not in besides and not self._hand.holds_place(place):
                    lease = await leases.take_unheard(self._acts, keys=self._keys, reader=self._reader, place=place)
                    self.enqueue([lease] if lease is not None else [])

    async def hear_again(self) -> None:
        """The same for shards of a cluster, each by itself: those whose node answers are read again. Raises StreamUnavailable."""
        failures: list[StreamUnavailable] = []
        for shard in sorted(self._reader.unheard):
            try:
                if self._holding is not None:
                    self._holding.adopt_again([shard])
                else:
                    await self.take_unheard(self._reader, shard=shard)
                self._reader.unheard.discard(shard)
            except StreamUnavailable as error:
                self.heed(error)
                failures.append(error)
        if failures:
            raise failures[0]

    def enqueue(self, found: list[Lease]) -> None:
        """They are in hand, and run in their turn."""
        self._hand.take(found)
        self._pace.read(len(found), body_bytes=sum([lease.body_bytes for lease in found]))
        for lease in found:
            if self._lanes is None or self._lanes.admit(lease):
                self._line_up(lease)

    def enqueue_urgent(self, found: list[Lease]) -> None:
        self.enqueue(found)
        self._pace.hurry(now=self._clock.monotonic())

    def _line_up(self, lease: Lease) -> None:
        self.waiting.put(lease, kind=self._reader.kind_of(lease.stream))

    def _make_way(self, lease: Lease) -> None:
        if self._lanes is not None and (following := self._lanes.leave(lease)) is not None:
            self._line_up(following)

    async def hold_back(self, lease: Lease, settlement: HoldBack) -> None:
        """Keeps a failed delivery in hand, at the head of its lane, until it is time to try it again."""
        again = lease._replace(delivery_count=settlement.delivery_count)
        if not self._hand.replace(lease, by=again):
            return
        if self._lanes is not None:
            self._lanes.replace(lease, by=again)
        self.wait(again, seconds=settlement.delay_ms / 1000)
        if self._is_ending:
            await self.let_go_of_held_back()

    def wait(self, lease: Lease, *, seconds: float) -> None:
        """Keeps a delivery in hand that may not run yet."""
        timer = asyncio.get_running_loop().call_later(seconds, self._try_again, lease)
        self._timers[id(lease)] = (timer, lease)

    @property
    def has_many_held_back(self) -> bool:
        return 2 * len(self._timers) >= self._settings.batch_size

    def _try_again(self, lease: Lease) -> None:
        self._timers.pop(id(lease), None)
        self._line_up(lease)

    async def let_go_of_held_back(self) -> None:
        """At the end: what waits for its next attempt, and what waits behind it, is left to the next holder of the shard."""
        self._is_ending = True
        while self._timers:
            _, (timer, lease) = self._timers.popitem()
            timer.cancel()
            await self._give_back(lease)
            self._hand.drop([lease, *(self._lanes.close(lease) if self._lanes is not None else ())])

    async def _give_back(self, lease: Lease) -> None:
        """Whoever takes it over counts one more delivery, as if it had ended us. It did not."""
        uncounted = HoldBack(0, delivery_count=lease.delivery_count - 1)
        group, consumer = self._reader.group, self._reader.consumer
        with contextlib.suppress(StreamUnavailable):  # Then it is charged one attempt too many.
            await settle(self._acts, keys=self._keys, group=group, consumer=consumer, decisions=[(lease, uncounted)])

    async def adopt(self, holding: Holding, *, stop: asyncio.Event, run_alone: Callable[[Lease], Awaitable[None]]) -> None:
        """In a group that keeps order: what is pending in shards that were just taken, one at a time, in the order of entries."""
        while holding.to_adopt and not stop.is_set() and not self._letter_cap.is_reached:
            shard = holding.to_adopt[0]
            for place in await leases.pending_places(self._acts, reader=self._reader, shard=shard):
                if stop.is_set() or not holding.holds(shard):
                    return
                if not self._hand.holds_place(place):
                    lease = await leases.adopt(self._acts, keys=self._keys, reader=self._reader, place=place)
                    await self._run_adopted(lease, run_alone=run_alone)
            holding.adopted(shard)

    async def _run_adopted(self, lease: Lease | None, *, run_alone: Callable[[Lease], Awaitable[None]]) -> None:
        if lease is None:
            return
        self._hand.take([lease])
        if self._lanes is None or self._lanes.admit(lease):
            await run_alone(lease)

    async def take_over(self, stop: asyncio.Event, *, run_alone: Callable[[Lease], Awaitable[None]]) -> None:
        """What an earlier life of this worker left, then what silent consumers left; one at a time, each alone."""
        while self._leftovers and not stop.is_set() and not self._letter_cap.is_reached:
            lease = await self._taken(self._next_leftover)
            if lease is not None:
                await run_alone(lease)
        while self._leftovers is not None and not stop.is_set() and not self._letter_cap.is_reached:
            lease = await self._taken(self._next_idle)
            if lease is None:
                return
            self._telemetry.log.info("delivery taken over from a silent consumer", group=self._reader.group, entry_id=lease.entry_id)
            await run_alone(lease)

    async def _taken(self, take: Callable[[], Awaitable[Lease | None]]) -> Lease | None:
        async with self._taking:
            try:
                lease = await take()
            except StreamUnavailable:
                self._has_unheard = self._acts.one_keyspace
                if self._urgent is not None:
                    self._urgent.has_unheard = True
                raise
            self._hand.take([lease] if lease is not None else [])
        return lease

    async def _next_leftover(self) -> Lease | None:
        assert self._leftovers is not None
        place = self._leftovers.popleft()
        try:
            return await leases.take_again(self._acts, keys=self._keys, reader=self._reader, place=place)
        except StreamUnavailable:
            if not self._acts.one_keyspace:
                self._reader.doubt(self._reader.shard_of(place[0]))
            raise

    async def _next_idle(self) -> Lease | None:
        # After an outage our own leases are old too: renewed first, they are not taken for somebody's who is dead.
        heard = [lease for lease in self._hand.leases if lease.shard not in self._reader.unheard]
        await leases.renew(self._acts, reader=self._reader, leases=heard)
        return await leases.claim_idle(self._acts, keys=self._keys, reader=self._reader, lease_ms=self._settings.lease_ms)
