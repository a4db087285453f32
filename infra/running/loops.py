"""Owns the guard of every long-lived loop: a round that fails is logged, counted and waited after, and the loop goes on."""

from __future__ import annotations

import asyncio
import random
import threading
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from infra.telemetry import Telemetry
from schemas.errors import ArchiveError, ConfigError, HooklakeError

# A person must act before these can end: going on would only hide them.
FATAL = (ConfigError, ArchiveError)


@dataclass(frozen=True, slots=True)
class BackOff:
    """How long to wait after the n-th failure in a row; pure but for the jitter."""

    first_ms: int = 100
    cap_ms: int = 10_000
    jitter: float = 0.2

    def delay_s(self, failures: int) -> float:
        """Doubles from `first_ms` up to `cap_ms`, give or take the jitter, so that many processes do not return at once."""
        delay_ms: int = min(self.cap_ms, self.first_ms << min(failures - 1, 30))
        return delay_ms / 1000 * random.uniform(1 - self.jitter, 1 + self.jitter)


@dataclass(slots=True)
class Guard:
    """Keeps the score of one loop and decides what is said about it."""

    name: str
    telemetry: Telemetry
    back_off: BackOff = BackOff()
    quiet_s: float = 10.0
    failures: int = 0
    _unsaid: int = 0
    _said_at: float = field(default=float("-inf"))

    def failed(self, error: Exception) -> float:
        """Counts and perhaps logs; returns the seconds to wait."""
        self.failures += 1
        self._unsaid += 1
        self.telemetry.loop_failures.add(1, {"loop": self.name})
        # One line in `quiet_s`, however often it fails, so that an outage does not fill the disk.
        if time.monotonic() - self._said_at >= self.quiet_s:
            self._said_at = time.monotonic()
            self.telemetry.log.warning("loop failed, going on", loop=self.name, failures=self._unsaid, **_about(error))
            self._unsaid = 0
        return self.back_off.delay_s(self.failures)

    def succeeded(self) -> None:
        if self.failures >= 3:
            self.telemetry.log.info("loop works again", loop=self.name, failures=self.failures)
        self.failures = 0


async def keep_running(
    step: Callable[[], Awaitable[object]],
    *,
    name: str,
    telemetry: Telemetry,
    stop: asyncio.Event,
    interval_ms: int = 0,
    back_off: BackOff = BackOff(),  # noqa: B008 - frozen
) -> None:
    """Runs `step` again and again until `stop` is set; never cancels a step. Raises what no waiting can heal."""
    guard = Guard(name, telemetry, back_off)
    while not stop.is_set():
        try:
            await step()
        except FATAL:
            raise
        except Exception as error:
            # Whatever it was, a loop that ends would be an outage until somebody restarts the process.
            wait_s = guard.failed(error)
        else:
            guard.succeeded()
            wait_s = interval_ms / 1000
        await wait_or_stop(stop, wait_s)


async def wait_or_stop(stop: asyncio.Event, seconds: float) -> None:
    """Sleeps, but not past `stop`; always lets other tasks run."""
    if seconds <= 0:
        await asyncio.sleep(0)
        return
    try:
        await asyncio.wait_for(stop.wait(), seconds)
    except TimeoutError:
        return


def keep_running_blocking(
    step: Callable[[], object],
    *,
    name: str,
    telemetry: Telemetry,
    stop: threading.Event,
    interval_ms: int = 0,
    back_off: BackOff = BackOff(),  # noqa: B008 - frozen
) -> None:
    """The same for a thread or a process without an event loop."""
    guard = Guard(name, telemetry, back_off)
    while not stop.is_set():
        try:
            step()
        except FATAL:
            raise
        except Exception as error:
            # As above: the only other place where every exception is caught.
            wait_s = guard.failed(error)
        else:
            guard.succeeded()
            wait_s = interval_ms / 1000
        stop.wait(wait_s)


def _about(error: Exception) -> dict[str, object]:
    # Errors of our own tree say everything in their message; for others the place matters.
    described: dict[str, object] = {"error": type(error).__name__, "reason": str(error)}
    return described if isinstance(error, HooklakeError) else {**described, "exc_info": error}
