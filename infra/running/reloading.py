"""Owns taking changed settings over while a parent runs its children: a look at them first, then one child after the other.

Each child finishes what it has in hand under the settings that it was started with (`succession.py`). Settings that are not
fit change nothing.
"""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from typing import Generic, TypeVar

from schemas.errors import ConfigError

Options = TypeVar("Options")


class Reloading(Generic[Options]):
    """One parent's; `ask` may be called by a signal, everything else happens between two looks of the supervisor."""

    def __init__(self, *, look: Callable[[], Options], take_over: Callable[[Options], Iterator[None]], say: Callable[[str], None]) -> None:
        """`look` reads and checks the settings, in a thread; `take_over` yields whenever it has to wait. Both raise ConfigError."""
        self._look = look
        self._take_over = take_over
        self._say = say
        self._asked = threading.Event()
        self._looking: Future[Options] | None = None
        self._steps: Iterator[None] = iter(())
        self.refusal = ""
        """Why the last settings that were looked at are not in use; empty when they are."""

    def remark(self) -> str:
        """What a person should know; empty when there is nothing."""
        return f"the settings as they are now are not in use, but older ones: {self.refusal}" if self.refusal else ""

    def ask(self) -> None:
        self._asked.set()

    def go_on(self) -> None:
        """One step, which never waits."""
        if self._is_taking_over():
            return
        if self._looking is not None:
            if self._looking.done():
                self._decide(self._looking)
                self._looking = None
        elif self._asked.is_set():
            self._asked.clear()
            self._looking = Future()
            # A daemon: whoever stops the parent need not wait for it.
            threading.Thread(target=self._look_into, args=(self._looking,), name="reloading", daemon=True).start()

    def _look_into(self, looking: Future[Options]) -> None:
        try:
            looking.set_result(self._look())
        except BaseException as error:
            looking.set_exception(error)

    def _decide(self, looked: Future[Options]) -> None:
        try:
            self._steps = self._take_over(looked.result())
        except ConfigError as error:
            self._refuse(error)
        else:
            self.refusal = ""
            self._is_taking_over()

    def _is_taking_over(self) -> bool:
        try:
            next(self._steps)
        except StopIteration:
            return False
        except ConfigError as error:
            self._refuse(error)
        return True

    def _refuse(self, error: ConfigError) -> None:
        self.refusal = str(error)
        self._say(f"the new settings are not taken over, and the old ones stay: {error}")


def stop_event(reloading: Reloading[Options]) -> threading.Event:
    """Set by SIGINT and SIGTERM. SIGHUP asks for the settings to be read again, unless it says that our terminal is closed."""
    stop, had_terminal = threading.Event(), has_terminal()

    def hang_up() -> None:
        if had_terminal and not has_terminal():
            stop.set()
        else:
            reloading.ask()

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stop.set())
    signal.signal(signal.SIGHUP, lambda *_: hang_up())
    return stop


def has_terminal() -> bool:
    try:
        os.close(os.open("/dev/tty", os.O_RDONLY | os.O_NOCTTY))
    except OSError:
        return False
    return True
