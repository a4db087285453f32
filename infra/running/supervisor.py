"""Owns child processes: starts them, restarts what dies, says what changes, and stops them in order with none left behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path

from infra.running.child import Child, RestartPolicy, describe_end, stop_stages
from infra.running.children import die_with, has_ended, reap_group
from infra.running.last_words import last_words
from schemas.errors import ConfigError

TICK_S = 0.1
PROBE_EVERY_S = 1.0
LARGEST_LOG_BYTES = 20 * 1024 * 1024
EXIT_CONFIG = 2


@dataclass(slots=True)
class Running:
    """A child and what became of it so far."""

    child: Child
    log_path: Path | None
    process: subprocess.Popen[bytes] | None = None
    started_at: float = 0.0
    start_at: float = 0.0
    deaths: int = 0
    ready: bool = False
    was_ever_ready: bool = False
    unready_at: float = 0.0
    """Since when it is not ready: its start, or the moment when it ceased to be."""
    is_told_slow: bool = False
    excuse: Future[str] | None = None
    probed_at: float = 0.0
    probe: Future[bool] | None = None
    alive_at: float = 0.0
    pulsed_at: float = 0.0
    pulse: Future[bool] | None = None
    doubt: Future[str] | None = None
    log_offset: int = 0
    retired_at: float | None = None
    """Since when it is told to stop, not to be started again."""


@dataclass(slots=True)
class Supervisor:
    """Runs in the main thread; `say` gets one sentence per change."""

    children: list[Child]
    logs: Path | None
    """Where each child has a file for its output; None when children write to ours."""
    say: Callable[[str], None]
    on_ready: Callable[[str], None] = lambda _name: None
    """Called in a thread of its own, each time a child becomes ready."""
    policy: RestartPolicy = field(default_factory=RestartPolicy)
    each_look: Callable[[], None] = lambda: None
    """Called between two looks at the children, in the same thread: the place to add and retire some."""
    before_stop: Callable[[], None] = lambda: None
    """Called once, before the children are told to stop."""
    _running: dict[str, Running] = field(default_factory=dict)
    _probes: ThreadPoolExecutor = field(default_factory=lambda: ThreadPoolExecutor(max_workers=8, thread_name_prefix="probe"))
    _began_at: float = 0.0

    def run(self, stop: threading.Event, *, kill: threading.Event | None = None) -> None:
        """Returns when `stop` is set and every child is gone; `kill` cuts the stopping short.

        Raises ConfigError with the child's own sentence when one refuses its settings before it was ever ready.
        """
        if self.logs is not None:
            self.logs.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._began_at = time.monotonic()
        for child in self.children:
            self.add(child)
        try:
            while not stop.is_set():
                for running in list(self._running.values()):
                    self._look_after(running)
                self.each_look()
                stop.wait(TICK_S)
        finally:
            self.before_stop()
            self._stop_all(kill or threading.Event())
            self._probes.shutdown(wait=False, cancel_futures=True)

    def add(self, child: Child, *, is_successor: bool = False) -> None:
        """One that succeeds another may refuse its settings without ending everything: it is only started again."""
        log_path = self.logs / f"{child.name}.log" if self.logs is not None else None
        if log_path is not None:
            rotate(log_path)
        self._running[child.name] = Running(child, log_path, was_ever_ready=is_successor)

    def retire(self, name: str) -> None:
        """Tells a child to stop, and forgets it when it has; it is not started again."""
        running = self._running[name]
        running.retired_at = time.monotonic()
        if running.process is not None:
            os.kill(running.process.pid, running.child.leave_signal)
        self.say(f"{name} is told to stop")

    def names(self) -> list[str]:
        """Of all children that are not yet forgotten; may be asked from any thread."""
        return list(self._running)

    def is_ready(self, name: str) -> bool:
        """Of one that is told to stop: whether it still says so."""
        return name in self._running and self._running[name].ready

    def is_retired(self, name: str) -> bool:
        return name in self._running and self._running[name].retired_at is not None

    def deaths_of(self, name: str) -> int:
        """How often in a row it has died."""
        return self._running[name].deaths if name in self._running else 0

    def is_any_ready(self) -> bool:
        """As far as the last look knows; may be asked from any thread."""
        return any(running.ready for running in list(self._running.values()))

    def are_all_ready(self) -> bool:
        """As far as the last look knows; may be asked from any thread."""
        return bool(self._running) and all(running.ready and running.retired_at is None for running in list(self._running.values()))

    def pid_of(self, name: str) -> int | None:
        process = self._running[name].process if name in self._running else None
        return process.pid if process else None

    def _look_after(self, running: Running) -> None:
        if running.retired_at is not None:
            self._see_off(running, since=running.retired_at)
        elif running.process is None:
            if self._may_start(running) and self._is_wanted(running):
                self._start(running)
        elif has_ended(running.process):
            self._bury(running)
        else:
            self._watch(running)

    def _see_off(self, running: Running, *, since: float) -> None:
        if running.process is not None and not has_ended(running.process):
            running.ready = running.ready and self._probed(running, every_s=TICK_S) is not False
            if time.monotonic() - since < running.child.leave_within_s:
                return
            self.say(f"{running.child.name} did not stop in {running.child.leave_within_s:g} s and is killed")
        if running.process is not None:
            reap_group(running.process)
        del self._running[running.child.name]

    def _may_start(self, running: Running) -> bool:
        if time.monotonic() < running.start_at:
            return False
        before = self._running.get(running.child.after)
        return before is None or before.ready or running.was_ever_ready or time.monotonic() - self._began_at > running.child.patience_s

    def _is_wanted(self, running: Running) -> bool:
        if running.child.why_not is None:
            return True
        if running.doubt is None:
            running.doubt = self._probes.submit(running.child.why_not)
        if not running.doubt.done():
            return False
        if sentence := running.doubt.result():
            self.say(f"{running.child.name} is not started: {sentence}")
            del self._running[running.child.name]
        return not sentence

    def _start(self, running: Running) -> None:
        child = running.child
        with ExitStack() as stack:
            output = stack.enter_context(running.log_path.open("ab")) if running.log_path is not None else None
            running.log_offset = output.tell() if output is not None else 0
            running.process = subprocess.Popen(
                list(child.command),
                env=child.environment,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT if output is not None else None,
                pass_fds=child.pass_fds,
                # A session of its own: Ctrl-C reaches us only, and we stop the children in order.
                start_new_session=True,
                preexec_fn=die_with(os.getpid()),
            )
        running.started_at = running.alive_at = running.unready_at = time.monotonic()
        running.ready = False
        running.probe = running.pulse = None
        running.probed_at = 0.0

    def _bury(self, running: Running) -> None:
        assert running.process is not None
        returncode = reap_group(running.process)
        running.process, running.ready = None, False
        lived_s = time.monotonic() - running.started_at
        reason = last_words(running.log_path, offset=running.log_offset) if returncode > 0 and running.log_path is not None else ""
        if returncode == EXIT_CONFIG and not running.was_ever_ready:
            if running.log_path is None:
                sys.exit(EXIT_CONFIG)  # Its sentence went to our own output.
            raise ConfigError(reason or f"{running.child.name} refuses its settings and does not say why; see {running.log_path}")
        running.deaths = self.policy.deaths_after(running.deaths, lived_s=lived_s)
        delay_s = self.policy.delay_s(running.deaths)
        running.start_at = time.monotonic() + delay_s
        self.say(f"{running.child.name} {describe_end(returncode)}, restarting in {delay_s:g} s" + (f": {reason}" if reason else ""))

    def _watch(self, running: Running) -> None:
        """Readiness is asked for in threads, because a child that hangs must not hold up the others."""
        now = time.monotonic()
        self._feel_pulse(running, now=now)
        self._tell_slow(running, now=now)
        ready = self._probed(running, every_s=PROBE_EVERY_S if running.ready else TICK_S)
        if ready is None or ready == running.ready:
            return
        running.ready = ready
        self.say(self._readiness(running))
        running.was_ever_ready = True
        running.unready_at, running.is_told_slow = now, False
        if ready:
            self._probes.submit(self.on_ready, running.child.name)

    def _probed(self, running: Running, *, every_s: float) -> bool | None:
        """What the child answers; None while it has not answered, or it is too early to ask again."""
        if running.probe is None:
            if (now := time.monotonic()) - running.probed_at >= every_s:
                running.probed_at = now
                running.probe = self._probes.submit(running.child.is_ready)
            return None
        if not running.probe.done():
            return None
        ready, running.probe = running.probe.result(), None
        return ready

    def _feel_pulse(self, running: Running, *, now: float) -> None:
        if running.child.is_alive is None or running.process is None:
            return
        if running.pulse is None:
            if now - running.pulsed_at >= PROBE_EVERY_S:
                running.pulsed_at = now
                running.pulse = self._probes.submit(running.child.is_alive)
        elif running.pulse.done():
            if running.pulse.result():
                running.alive_at = now
            if now - running.alive_at > running.child.hung_after_s:
                self.say(f"{running.child.name} has not answered for {running.child.hung_after_s:g} s and is killed")
                os.kill(running.process.pid, signal.SIGKILL)
            running.pulse = None

    def _readiness(self, running: Running) -> str:
        if not running.ready:
            where = f"; see {running.log_path}" if running.log_path is not None else ""
            return f"{running.child.name} is not ready any more (it still runs{where})"
        took_s = time.monotonic() - running.unready_at
        return f"{running.child.name} is ready {'again ' if running.was_ever_ready else ''}after {took_s:.1f} s"

    def _tell_slow(self, running: Running, *, now: float) -> None:
        """Says once why a child that runs does not become ready; until it is ready it is not said again."""
        if running.ready or running.is_told_slow or running.child.why_unready is None:
            return
        if running.excuse is None:
            if now - running.unready_at > running.child.slow_after_s:
                running.excuse = self._probes.submit(running.child.why_unready)
        elif running.excuse.done():
            self.say(f"{running.child.name} is not ready after {now - running.unready_at:.0f} s: {running.excuse.result()}")
            running.excuse, running.is_told_slow = None, True

    def _stop_all(self, kill: threading.Event) -> None:
        for names in stop_stages([running.child for running in self._running.values()]):
            stage = [running for name in names if (running := self._running[name]).process is not None]
            for running in stage:
                assert running.process is not None
                os.kill(running.process.pid, signal.SIGTERM)
            for running in stage:
                self._await_end(running, kill=kill)

    def _await_end(self, running: Running, *, kill: threading.Event) -> None:
        assert running.process is not None
        deadline = time.monotonic() + running.child.grace_s
        while not has_ended(running.process):
            if kill.is_set() or time.monotonic() > deadline:
                if not kill.is_set():
                    self.say(f"{running.child.name} did not stop in {running.child.grace_s:g} s and is killed")
                break
            time.sleep(0.02)
        reap_group(running.process)
        running.process = None


def rotate(log_path: Path) -> None:
    """Keeps one earlier file, so that logs cannot fill the disk over many starts."""
    with suppress(OSError):
        if log_path.stat().st_size > LARGEST_LOG_BYTES:
            log_path.replace(log_path.with_suffix(".log.1"))
