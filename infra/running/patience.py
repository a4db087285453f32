"""Owns how long a connection waits for its client: for what it should bring, for its next request, for it to read its answers.

uvicorn waits for ever for the first and the last, and sets a timer for each of the second.
"""

from __future__ import annotations

import asyncio
from abc import abstractmethod
from typing import Any

import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from infra.running.pulse import Pulse
from infra.running.serving_limits import ServingLimits

# How long is looked whether something has come, before a deadline that is over ends a connection.
LOOK_AGAIN_S = 0.01


class Limited(uvicorn.Config):
    """A server that knows what a connection may cost."""

    limits: ServingLimits
    pulse: Pulse


class Patient(HttpToolsProtocol):
    """A connection that ends when its time is over; what that means for what came before is for its heirs to say."""

    config: Limited

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._deadline: asyncio.TimerHandle | None = None
        self._is_idle = False
        self._idle_since = 0.0
        self._unread: asyncio.TimerHandle | None = None
        """Ends it when nobody reads what was written."""

    def connection_lost(self, exc: Exception | None) -> None:
        self._disarm()
        self._is_read()
        super().connection_lost(exc)
        # uvicorn lets it run on where the client reset the connection: for the idle time it would keep the last request in memory.
        if self.timeout_keep_alive_task is not None:
            self.timeout_keep_alive_task.cancel()
            self.timeout_keep_alive_task = None

    def _arm(self, seconds: float) -> None:
        self._disarm()
        self._deadline = self.loop.call_later(seconds, self._expired)

    def _disarm(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _expired(self) -> None:
        # A process that was held up finds its timers due before it has read what came meanwhile.
        self._deadline = self.loop.call_later(LOOK_AGAIN_S, self._end_unless_held_up)

    def _end_unless_held_up(self) -> None:
        if left_s := self.config.pulse.forgives_for_s(self.loop.time()):
            self._arm(left_s)
        else:
            self._end()

    @abstractmethod
    def _end(self) -> None:
        """The deadline is over, and nothing has come."""

    def _rest(self) -> None:
        """Nothing is asked: for so long, and no longer. One timer looks after many requests; uvicorn sets one for each."""
        self._is_idle, self._idle_since = True, self.loop.time()
        if self.timeout_keep_alive_task is None:
            self.timeout_keep_alive_task = self.loop.call_later(self.timeout_keep_alive, self.timeout_keep_alive_handler)

    def _unset_keepalive_if_required(self) -> None:
        self._is_idle = False

    def timeout_keep_alive_handler(self) -> None:
        self.timeout_keep_alive_task = None
        if self._is_idle and not self.transport.is_closing():
            then = self.timeout_keep_alive_handler if self._idle_left_s > 0 else self._end_idle
            self.timeout_keep_alive_task = self.loop.call_later(max(self._idle_left_s, LOOK_AGAIN_S), then)

    @property
    def _idle_left_s(self) -> float:
        return self._idle_since + self.timeout_keep_alive - self.loop.time()

    def _end_idle(self) -> None:
        self.timeout_keep_alive_task = None
        if not self._is_idle or self._idle_left_s > 0:
            self.timeout_keep_alive_handler()  # It brought a request after all.
        elif left_s := self.config.pulse.forgives_for_s(self.loop.time()):
            self.timeout_keep_alive_task = self.loop.call_later(left_s, self._end_idle)
        else:
            self._close()

    def pause_writing(self) -> None:
        super().pause_writing()
        self._must_be_read()

    def resume_writing(self) -> None:
        super().resume_writing()
        if not self.transport.is_closing():
            self._is_read()

    def _close(self) -> None:
        self.transport.close()
        self._must_be_read()

    def _must_be_read(self) -> None:
        """Answers that nobody reads are kept for as long as a connection that nobody uses; closing alone would wait for ever."""
        if self._unread is None and self in self.connections:
            self._unread = self.loop.call_later(self.config.limits.idle_timeout_ms / 1000, self._look_for_a_reader)

    def _look_for_a_reader(self) -> None:
        # As in `_expired`: who was held up has not seen yet that there is room again.
        self._unread = self.loop.call_later(LOOK_AGAIN_S, self._abort_unless_held_up)

    def _abort_unless_held_up(self) -> None:
        if left_s := self.config.pulse.forgives_for_s(self.loop.time()):
            self._unread = self.loop.call_later(left_s, self.transport.abort)
        else:
            self.transport.abort()

    def _is_read(self) -> None:
        if self._unread is not None:
            self._unread.cancel()
            self._unread = None
