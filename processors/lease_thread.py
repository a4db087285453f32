"""Owns the thread that keeps a worker's leases: renews what is in hand, and parts with a processor that overstays.

A thread with a connection of its own, because a processor may hold the event loop, and the leases of its neighbours must not
run out meanwhile. A lease is renewed until its attempt's deadline. An attempt that still runs a grace later can only be ended
with its process: the process is told to leave, and as the last thing before its end the delivery is settled as a failed
attempt, so that it is charged and nobody else. Any earlier, its retry would run beside it.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from pathlib import Path

from infra.clock import Clock
from infra.running.loops import BackOff, keep_running_blocking
from infra.settings import LogSettings
from infra.streams.keys import Keys
from infra.streams.leases import LeaseKeeper
from infra.streams.reading import GroupReader, Lease
from infra.streams.settle import Settlement
from infra.telemetry import Telemetry
from processors.dispatch import overstayed
from processors.leases import RENEWALS_PER_LEASE, Hand, Running
from processors.settings import GroupSettings
from processors.settle import after_attempt
from schemas.errors import StreamUnavailable
from schemas.outcome import Ran

LOOK_EVERY_MS = 50
JOIN_WITHIN_S = 1.0

Leave = Callable[[], None]


class LeaseThread:
    """Runs from `start` to `stop`; `leave` is called once, from this thread, when an attempt overstays, and must not block."""

    def __init__(
        self,
        hand: Hand,
        *,
        reader: GroupReader,
        keys: Keys,
        settings: GroupSettings,
        log: LogSettings,
        home: Path,
        telemetry: Telemetry,
        clock: Clock,
    ) -> None:
        self._hand = hand
        self._reader = reader
        self._settings = settings
        self._keeper = LeaseKeeper(log, home=home, keys=keys, reader=reader)
        # For the last act: the thread may be in the middle of a renewal on the other one.
        self._last_keeper = LeaseKeeper(log, home=home, keys=keys, reader=reader)
        self._telemetry = telemetry
        self._clock = clock
        self._leave: Leave = lambda: None
        self.has_left = False
        self._renew_at = 0.0
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="leases", daemon=True)

    def start(self, leave: Leave) -> None:
        self._leave = leave
        self._loop = asyncio.get_running_loop()
        self._thread.start()

    def stop(self) -> None:
        """Returns at once."""
        self._stop.set()

    def join(self) -> None:
        """Waits for the thread, but not for a log that hangs."""
        self._thread.join(JOIN_WITHIN_S)

    def _run(self) -> None:
        # A failed renewal is tried again well before the lease runs out.
        back_off = BackOff(cap_ms=max(100, self._settings.lease_ms // (2 * RENEWALS_PER_LEASE)))
        every_ms = min(LOOK_EVERY_MS, self._settings.lease_ms // RENEWALS_PER_LEASE)
        name = "worker.leases"
        keep_running_blocking(self._look, name=name, telemetry=self._telemetry, stop=self._stop, interval_ms=every_ms, back_off=back_off)
        self._keeper.close()

    def _look(self) -> None:
        now = self._clock.monotonic()
        if self._overstaying(now) and not self.has_left:
            self.has_left = True
            self._leave()
        if now >= self._renew_at:
            self._renew(now)

    def _renew(self, now: float) -> None:
        leases = self._hand.renewable(now=now)
        lost = self._keeper.renew(leases) if leases else []
        self._renew_at = now + self._settings.lease_ms / 1000 / RENEWALS_PER_LEASE
        # What is being settled at this moment looks lost too; dropping it from the hand only ends its renewal.
        self._drop(lost)

    def _overstaying(self, now: float) -> list[Running]:
        return self._hand.overstaying(now=now, grace_s=self._settings.grace_ms / 1000)

    def charge_overstaying(self) -> None:
        """Settles them as failed attempts. A log that cannot be reached does not keep us: the next life counts deliveries."""
        suspects = self._overstaying(self._clock.monotonic())
        # What ran in company stays pending, uncharged: the next life runs it one at a time, and finds who it was.
        decisions = [(one.lease, self._verdict(one)) for one in suspects if not self._hand.is_in_company(one.lease)]
        for one in suspects:
            self._telemetry.failed.add(1, {"group": self._reader.group})
            self._telemetry.log.error(
                "processor overstays and cannot be stopped, so its process ends",
                group=self._reader.group, processor=one.plan.name, event_id=_event_id(one.lease), attempt=one.attempt,
                timeout_ms=one.plan.timeout_ms,
            )  # fmt: skip
        try:
            self._last_keeper.settle(decisions)
        except StreamUnavailable as error:
            self._telemetry.log.warning("overstaying deliveries could not be settled", group=self._reader.group, reason=str(error))

    def _verdict(self, one: Running) -> Settlement:
        error = overstayed(one.plan.name, timeout_ms=one.plan.timeout_ms)
        now_ms, took_ms = self._clock.now_ms(), round((self._clock.monotonic() - one.began) * 1000)
        ran = Ran(_event_id(one.lease), one.plan.name, one.attempt, now_ms - took_ms, took_ms)
        return after_attempt(error, ran=ran, policy=one.plan.policy, now_ms=now_ms, hold_count=one.hold_count)

    def _drop(self, leases: list[Lease]) -> None:
        if leases and self._loop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._hand.drop, leases)


def _event_id(lease: Lease) -> str:
    return lease.fields.get(b"id", b"").decode(errors="replace")
