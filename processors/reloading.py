"""Owns taking changed settings over while a worker runs: a look at them first, then one child after the other.

Each child finishes what it has in hand under the settings that it was started with; its successor has its name, and takes up
whatever it could not finish. Settings that are not fit change nothing.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import Future

from infra.running.child import Child
from infra.running.supervisor import Supervisor
from processors.settings import GroupSettings
from schemas.errors import ConfigError

# A child that is not ready by then will be some time, or never; the others need not wait for it.
READY_WITHIN_S = 30.0

Look = Callable[[], GroupSettings]
Muster = Callable[[GroupSettings], list[Child]]


class Reloading:
    """One worker's; `ask` may be called by a signal, everything else happens between two looks of the supervisor."""

    def __init__(self, supervisor: Supervisor, *, look: Look, muster: Muster, say: Callable[[str], None]) -> None:
        """`look` reads and checks the settings, in a thread; both raise ConfigError."""
        self._supervisor = supervisor
        self._look = look
        self._muster = muster
        self._say = say
        self._asked = threading.Event()
        self._looking: Future[GroupSettings] | None = None
        self._left: list[Child] = []
        self._current: Child | None = None
        self._started_at: float | None = None

    def ask(self) -> None:
        self._asked.set()

    def go_on(self) -> None:
        """One step, which never waits."""
        if self._current is not None:
            self._replace(self._current)
        elif self._left:
            self._begin(self._left.pop(0))
        elif self._looking is not None:
            if self._looking.done():
                self._decide(self._looking)
                self._looking = None
        elif self._asked.is_set():
            self._asked.clear()
            self._looking = Future()
            # A daemon: whoever stops the worker need not wait for it.
            threading.Thread(target=self._look_into, args=(self._looking,), name="reloading", daemon=True).start()

    def _look_into(self, looking: Future[GroupSettings]) -> None:
        try:
            looking.set_result(self._look())
        except BaseException as error:
            looking.set_exception(error)

    def _decide(self, looked: Future[GroupSettings]) -> None:
        try:
            self._left = self._muster(looked.result())
        except ConfigError as error:
            self._say(f"the new settings are not taken over, and the old ones stay: {error}")
            return
        self._say("new settings are taken over, child by child")
        staying = {child.name for child in self._left}
        for name in self._supervisor.names():
            if name not in staying:
                self._supervisor.retire(name)

    def _begin(self, child: Child) -> None:
        if child.name in self._supervisor.names():
            self._supervisor.retire(child.name)
        self._current, self._started_at = child, None

    def _replace(self, child: Child) -> None:
        now = time.monotonic()
        if self._started_at is None:
            if child.name not in self._supervisor.names():
                self._supervisor.add(child, is_successor=True)
                self._started_at = now
        elif self._supervisor.is_ready(child.name) or now - self._started_at > READY_WITHIN_S:
            self._current = None
            if not self._left:
                self._say("new settings are in use")
