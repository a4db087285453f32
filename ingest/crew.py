"""Owns the receivers of one `hooklake ingest` as their parent knows them: their names, their sockets, their settings."""

from __future__ import annotations

import itertools
import os
import socket
import sys
from collections.abc import Callable, Collection, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from infra.running.child import Child
from infra.running.healthcheck import answers_ok
from infra.running.services import RECEIVER
from infra.running.serving_limits import LEAVE
from infra.running.sockets import listen
from infra.running.succession import relieved
from infra.running.supervisor import Supervisor
from infra.setting_files import FilesOnce
from infra.settings import FILE_NAME, Settings, environment_with, load_settings
from infra.streams.probe import refuse_unfit_log
from ingest.settings import IngestSettings
from ingest.sources import Sources
from ingest.windows import windows_of
from schemas.errors import ConfigError

# Beyond its own grace a receiver has to close its log and its telemetry.
LAST_MOMENTS_S = 5.0
HUNG_AFTER_S = 30.0
PARENTS_OWN = ("host", "port", "ops_port")


@dataclass(frozen=True, slots=True)
class Found:
    """Settings that were found fit, kept as they were with the secrets and schemas that they refer to: a receiver that dies while
    somebody edits one of these files comes back as it was."""

    settings: Settings
    ingest: IngestSettings
    sources: int
    descriptor: int
    """A nameless file in memory that holds them for the children."""


def find_fit(home: Path) -> Found:
    """The settings as they are now, with every secret looked at, and a log that keeps what it is given, as far as can be seen; one
    that is down may be fit. Raises ConfigError."""
    files = FilesOnce()
    settings = load_settings(home, files=files)
    ingest = settings.section("ingest", IngestSettings)
    _ = settings.telemetry
    sources = Sources.from_settings(settings)
    windows_of(settings)
    refuse_unfit_log(settings.log, home=home)
    return Found(settings, ingest, len(sources.by_route), files.keep(FILE_NAME))


class Crew:
    """Who receives for one parent. Names are the first numbers that are free, so that there are few however often receivers change."""

    def __init__(self, found: Found, *, listener: socket.socket, child_module: str, held: ExitStack) -> None:
        """`held` keeps the receivers' ops ports for as long as the parent runs."""
        self._found = found
        self._listener = listener
        self._child_module = child_module
        self._held = held
        self._ops: dict[str, socket.socket] = {}

    def muster(self) -> list[Child]:
        """As many as the settings say."""
        return [self._child(f"{RECEIVER}-{index}", found=self._found) for index in range(self._found.ingest.receivers)]

    def make_way(self, new: Found, *, supervisor: Supervisor, say: Callable[[str], None]) -> Iterator[None]:
        """Lets receivers with these settings take the place of those that there are; raises ConfigError, and then those stay."""
        for sentence in not_taken_over(self._found.ingest, new=new.ingest):
            say(sentence)
        try:
            yield from relieved(
                new.ingest.receivers, next_child=lambda taken: self._child(free_name(taken), found=new), supervisor=supervisor, say=say
            )
        except ConfigError:
            os.close(new.descriptor)
            raise
        # Nobody is started with the old ones any more.
        os.close(self._found.descriptor)
        self._found = new

    def port_of(self, name: str) -> int:
        return int(self._ops_of(name).getsockname()[1])

    def _ops_of(self, name: str) -> socket.socket:
        if name not in self._ops:
            self._ops[name] = self._held.enter_context(listen("127.0.0.1", port=0, setting="ingest.ops_port"))
        return self._ops[name]

    def _child(self, name: str, *, found: Found) -> Child:
        fd, ops_fd, port = self._listener.fileno(), self._ops_of(name).fileno(), self.port_of(name)
        limits = found.ingest.serving_limits()
        command = [
            sys.executable, "-m", self._child_module, "--name", name,
            "--fd", str(fd), "--ops-fd", str(ops_fd), "--settings-fd", str(found.descriptor),
        ]  # fmt: skip
        return Child(
            name=name,
            command=command,
            environment=environment_with({"HOOKLAKE_HOME": str(found.settings.home), "PYTHONSAFEPATH": "1"}),
            is_ready=lambda: answers_ok(port),
            is_alive=lambda: answers_ok(port, path="/healthz"),
            hung_after_s=HUNG_AFTER_S,
            stop_stage=0,
            grace_s=limits.grace_ms / 1000 + LAST_MOMENTS_S,
            leave_signal=LEAVE,
            leave_grace_s=limits.leave_within_ms / 1000 + LAST_MOMENTS_S,
            pass_fds=(fd, ops_fd, found.descriptor),
        )


def not_taken_over(old: IngestSettings, *, new: IngestSettings) -> list[str]:
    """What the parent itself holds, and cannot change while it runs. Pure."""
    return [
        f"ingest.{name} stays {getattr(old, name)} until `hooklake ingest` is stopped and started: it is held open"
        for name in PARENTS_OWN
        if getattr(old, name) != getattr(new, name)
    ]


def free_name(taken: Collection[str]) -> str:
    """The first that nobody has; pure."""
    return next(name for name in (f"{RECEIVER}-{index}" for index in itertools.count()) if name not in taken)
