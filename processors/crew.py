"""Owns the children of one worker as its parent knows them: their names, their sockets, their settings, how each is started."""

from __future__ import annotations

import fcntl
import itertools
import os
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from infra.running.child import Child
from infra.running.children import die_with
from infra.running.healthcheck import answers_ok
from infra.running.last_words import choose
from infra.running.sockets import listen
from infra.settings import SETTINGS_VARIABLE, environment_with, load_settings, settings_path
from processors.assignment import module_of
from processors.settings import GroupSettings, group_settings
from schemas.errors import ConfigError

# Longer than a child needs to drain.
STOP_WITHIN_S = 25.0
LEAST_HUNG_S = 30.0
CHECKED_WITHIN_S = 120.0


@dataclass(frozen=True, slots=True)
class Wanted:
    """What the command line says, which goes before the settings."""

    group: str
    module: str = ""
    consumer: str = ""
    ops_port: int | None = None
    children: int | None = None

    def options(self, *, home: Path, path: Path) -> GroupSettings:
        """Those of the settings file at `path`, with what the command line says instead; raises ConfigError."""
        options = group_settings(load_settings(home, path=path), self.group)
        said = {"ops_port": self.ops_port, "children": self.children}
        options = options.model_copy(update={name: value for name, value in said.items() if value is not None})
        return options.model_copy(update={"module": module_of(options, group=self.group, named=self.module)})


class Crew:
    """Who works for one parent. Settings are kept as they were when they were found fit: a child that dies while somebody edits the
    file comes back as it was."""

    def __init__(self, wanted: Wanted, *, home: Path, child_module: str, held: ExitStack) -> None:
        """`held` keeps names, sockets and settings for as long as the parent runs."""
        self._wanted = wanted
        self._home = home
        self._child_module = child_module
        self._held = held
        self._names: list[str] = []
        self._listeners: dict[str, socket.socket] = {}

    @property
    def _settings(self) -> Path:
        return self._home / "run" / f"{self._wanted.group}.{self._names[0]}.yaml"

    @property
    def _next_settings(self) -> Path:
        return self._settings.with_suffix(".next.yaml")

    def muster(self) -> GroupSettings:
        """Keeps the settings as they are now; raises ConfigError."""
        found = settings_path(self._home)
        count = self._wanted.options(home=self._home, path=found).children
        self._take_name(wanted_names(self._wanted.consumer, count=count)[0])
        copy_settings(found, self._settings)
        self._held.callback(self._settings.unlink, missing_ok=True)
        return self._wanted.options(home=self._home, path=self._settings)

    def muster_again(self) -> GroupSettings:
        """The same when there are some already, which stay unless the new ones, and the processors that they name, are fit."""
        copy_settings(settings_path(self._home), self._next_settings)
        try:
            options = self._wanted.options(home=self._home, path=self._next_settings)
            self._refuse_unfit(options)
            self._next_settings.replace(self._settings)
        finally:
            self._next_settings.unlink(missing_ok=True)
        return options

    def _refuse_unfit(self, options: GroupSettings) -> None:
        """In a process of its own: whatever a module does when it is imported must not happen to the parent."""
        command = [*self._command(self._names[0], options=options), "--check"]
        environment = self._environment(self._next_settings)
        try:
            done = subprocess.run(
                command,
                env=environment,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                timeout=CHECKED_WITHIN_S,
                check=False,
                preexec_fn=die_with(os.getpid()),
            )
        except subprocess.TimeoutExpired as error:
            raise ConfigError(f"the processors of group {self._wanted.group} are not loaded within {CHECKED_WITHIN_S:g} s") from error
        if done.returncode != 0:
            raise ConfigError(choose(done.stderr.splitlines()) or f"a check of them ended with {done.returncode}")

    def children(self, options: GroupSettings) -> list[Child]:
        """As many as the options say, with the names of those that there are; raises ConfigError when a name is taken."""
        names = wanted_names(self._wanted.consumer, count=options.children)
        names = names if self._wanted.consumer else [*self._names, *names][: options.children]
        return [self._child(self._take_name(name), options=options) for name in names]

    def _take_name(self, name: str) -> str:
        if name in self._names:
            return name
        taken = self._held.enter_context(named_consumer(name, group=self._wanted.group, home=self._home))
        setting = f"groups.{self._wanted.group}.ops_port"
        self._listeners[taken] = self._held.enter_context(listen("127.0.0.1", port=0, setting=setting))
        self._names.append(taken)
        return taken

    def port_of(self, name: str) -> int:
        return int(self._listeners[name].getsockname()[1])

    def _command(self, name: str, *, options: GroupSettings) -> list[str]:
        return [sys.executable, "-m", self._child_module, options.module, "--group", self._wanted.group, "--consumer", name]

    def _environment(self, settings: Path) -> dict[str, str]:
        return environment_with({"HOOKLAKE_HOME": str(self._home), SETTINGS_VARIABLE: str(settings), "PYTHONSAFEPATH": "1"})

    def _child(self, name: str, *, options: GroupSettings) -> Child:
        fd, port = self._listeners[name].fileno(), self.port_of(name)
        return Child(
            name=name,
            command=[*self._command(name, options=options), "--ops-fd", str(fd)],
            environment=self._environment(self._settings),
            is_ready=lambda: answers_ok(port),
            stop_stage=0,
            # A processor may hold Python's one lock, and then no thread of the child can end it: only we can.
            is_alive=lambda: answers_ok(port, path="/healthz"),
            hung_after_s=max(LEAST_HUNG_S, options.lease_ms / 1000),
            grace_s=STOP_WITHIN_S,
            pass_fds=(fd,),
        )


def copy_settings(path: Path, to: Path) -> None:
    """Raises ConfigError; readable by us alone, as the original may be."""
    try:
        to.touch(mode=0o600)
        shutil.copyfile(path, to)
    except OSError as error:
        raise ConfigError(f"{error.filename or path} cannot be copied ({error.strerror}), so no setting of it counts") from error


def wanted_names(consumer: str, *, count: int) -> list[str]:
    """What the children are called: the given name, numbered when there are several; empty texts when any name will do. Pure."""
    if not consumer:
        return [""] * count
    return [consumer] if count == 1 else [f"{consumer}-{index}" for index in range(count)]


@contextmanager
def named_consumer(name: str, *, group: str, home: Path) -> Iterator[str]:
    """A child's name in its group, held for as long as the parent runs: the given one, or the first free of this machine's.

    Stable over restarts, so that dead names do not pile up in the group; and never two workers under one name, who would
    take each other's deliveries for their own. Raises ConfigError when the given name is held by another worker.
    """
    (home / "run").mkdir(mode=0o700, parents=True, exist_ok=True)
    for candidate in [name] if name else (f"{socket.gethostname()}-{index}" for index in itertools.count()):
        with (home / "run" / f"{group}.{candidate}.lock").open("a") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                continue
            yield candidate
            return
    raise ConfigError(f"--consumer {name} is the name of a worker that runs in group {group} already; each needs a name of its own")
