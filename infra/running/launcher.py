"""Owns `hooklake up`: everything on one machine, as child processes of one supervisor."""

from __future__ import annotations

import fcntl
import os
import secrets
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

import typer

from infra.log_address import EMBEDDED, shown
from infra.running.announce import Announcer
from infra.running.child import Child
from infra.running.cli import run
from infra.running.embedded import EmbeddedServer, free_port
from infra.running.healthcheck import is_fine, log_answers
from infra.running.initialise import initialise, write_new
from infra.running.ops import listen_for_ops
from infra.running.services import (
    ARCHIVE,
    CONNECT_SETTING,
    RECEIVER,
    ReceiverPorts,
    Service,
    connect_port,
    refuse_shared_ports,
    refuse_unasked_ports,
    services_of,
)
from infra.running.sockets import listen
from infra.running.supervisor import Supervisor
from infra.settings import Settings, environment_with, home_directory, load_settings
from infra.streams.connection import ADDRESS_FILE
from schemas.errors import ConfigError

LOG = "log"
STOP_STAGES = {RECEIVER: 0, "worker": 1, ARCHIVE: 2, LOG: 3}
# A worker waits for its children to drain, the archive for the batch in hand; both end sooner when there is nothing to wait for.
STOP_WITHIN_S = {RECEIVER: 20.0, "worker": 30.0, ARCHIVE: 60.0}
# Spark takes the processor for many seconds: the receiver, which has to answer within three, goes first.
ARCHIVE_PATIENCE_S = 3.0
# After this long a person should hear why a service does not become ready; Spark needs most of a minute on a slow machine.
SLOW_AFTER_S = 8.0
ARCHIVE_SLOW_AFTER_S = 120.0
NO_CONNECT = "neither notebooks nor `hooklake query` could ask the archive's Spark"

app = typer.Typer(add_completion=False)


@app.command()
def up() -> None:
    """Starts everything on this machine and keeps it running until Ctrl-C.

    Writes a settings file and fresh secrets when there are none. A second start finds all earlier data.
    """
    home = home_directory()
    initialise(home)
    settings = load_settings(home)
    with only_one(home):
        launch(settings)


def launch(settings: Settings) -> None:
    """Returns after an orderly stop; raises ConfigError when a service refuses its settings."""
    refuse_unasked_ports(settings)
    refuse_shared_ports(settings)
    refuse_taken_ports(settings)
    receiver = settings.section("ingest", ReceiverPorts)
    listener = listen(receiver.host, port=receiver.port, setting="ingest.port", host_setting="ingest.host")
    announcer = Announcer(settings, address=listener.getsockname()[:2])
    with address_of_embedded(settings) as server:
        children = [*log_children(server, home=settings.home), *service_children(settings, listener=listener, embedded=server is not None)]
        supervisor = Supervisor(children, settings.home / "logs", announcer.say, on_ready=announcer.on_ready)
        announcer.begin()
        stop, kill = stop_events()
        try:
            supervisor.run(stop, kill=kill)
        finally:
            announcer.drop_example()
    announcer.say("everything is stopped")


@contextmanager
def only_one(home: Path) -> Iterator[None]:
    """Holds the home for this process; raises ConfigError when another `up` holds it."""
    with (home / "up.lock").open("a+") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            lock.seek(0)
            raise ConfigError(
                f"HOOKLAKE_HOME={home} is in use by another `hooklake up` (process {lock.read().strip() or 'unknown'}), "
                "and two would fight over its data: use that one, or set HOOKLAKE_HOME to another folder"
            ) from error
        lock.truncate(0)
        lock.write(f"{os.getpid()}\n")
        lock.flush()
        yield


def refuse_taken_ports(settings: Settings) -> None:
    """Raises ConfigError naming the setting, before anything is started."""
    for service in services_of(settings):
        listen_for_ops(service.ops_host, port=service.ops_port, setting=service.ops_setting).close()
    # Any free one for 0: nothing is refused then.
    listen("127.0.0.1", port=connect_port(settings), setting=CONNECT_SETTING, consequence=NO_CONNECT).close()


@contextmanager
def address_of_embedded(settings: Settings) -> Iterator[EmbeddedServer | None]:
    """The embedded server to run, its address published to all processes of this home; None with a server of the user's own."""
    if settings.log.url != EMBEDDED:
        yield None
        return
    password_file = settings.home / "secrets" / "log"
    write_new(password_file, secrets.token_hex(32) + "\n")
    server = EmbeddedServer(settings.home / "log", free_port(), password=password_file.read_text().strip())
    address_file = settings.home / ADDRESS_FILE
    address_file.parent.mkdir(mode=0o700, exist_ok=True)
    address_file.unlink(missing_ok=True)
    write_new(address_file, server.url + "\n")
    try:
        yield server
    finally:
        address_file.unlink(missing_ok=True)


def log_children(server: EmbeddedServer | None, *, home: Path) -> list[Child]:
    if server is None:
        return []
    return [
        Child(
            name=LOG,
            command=server.command(),
            environment=environment_with({"HOOKLAKE_HOME": str(home)}),
            is_ready=server.answers,
            why_unready=lambda: f"it may still be loading its data; see {home / 'logs' / LOG}.log",
            slow_after_s=SLOW_AFTER_S,
            stop_stage=STOP_STAGES[LOG],
        )
    ]


def service_children(settings: Settings, *, listener: socket.socket, embedded: bool) -> list[Child]:
    return [_child(service, settings=settings, listener=listener, embedded=embedded) for service in services_of(settings)]


def _child(service: Service, *, settings: Settings, listener: socket.socket, embedded: bool) -> Child:
    command = [sys.executable, "-m", service.module, *service.arguments]
    descriptors: tuple[int, ...] = ()
    if service.kind == RECEIVER:
        # The socket is ours: while a receiver restarts, senders wait in its queue instead of being refused.
        descriptors = (listener.fileno(),)
        command += ["--fd", str(listener.fileno())]
    is_archive = service.kind == ARCHIVE
    environment = environment_with({"HOOKLAKE_HOME": str(settings.home), "PYTHONSAFEPATH": "1"})
    return Child(
        name=service.name,
        command=command,
        environment=environment,
        is_ready=lambda: bool(is_fine(service)),
        why_unready=lambda: why_unready(service, settings=settings),
        slow_after_s=ARCHIVE_SLOW_AFTER_S if is_archive else SLOW_AFTER_S,
        stop_stage=STOP_STAGES[service.kind],
        grace_s=STOP_WITHIN_S[service.kind],
        after=RECEIVER if is_archive else LOG if embedded else "",
        patience_s=ARCHIVE_PATIENCE_S if is_archive else float("inf"),
        why_not=(lambda: java_is_missing(environment)) if is_archive else None,
        pass_fds=descriptors,
    )


def why_unready(service: Service, *, settings: Settings) -> str:
    """What keeps a running service from its work, as far as can be seen from here."""
    if not log_answers(settings):
        consequence = "; senders get 503 until it does" if service.kind == RECEIVER else ""
        return f"the log at {shown(settings.log.url)} does not answer{consequence}"
    return f"see {settings.home / 'logs' / service.name}.log"


def java_is_missing(environment: dict[str, str]) -> str:
    """What the archive's own check says when this machine has no Java for it, else nothing."""
    check = subprocess.run([sys.executable, "-m", "analytics.java"], env=environment, capture_output=True, text=True, check=False)
    words = " ".join((check.stderr or check.stdout).split()).removeprefix("hooklake: ")
    return "" if check.returncode == 0 else words or "Java 17 or newer is missing"


def stop_events() -> tuple[threading.Event, threading.Event]:
    """Set by the first and by the second Ctrl-C or SIGTERM: stop in order, stop now."""
    stop, kill = threading.Event(), threading.Event()

    def on_signal(_number: int, _frame: FrameType | None) -> None:
        (kill if stop.is_set() else stop).set()

    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, on_signal)
    return stop, kill


if __name__ == "__main__":
    run(app)
