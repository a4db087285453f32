"""Owns `hooklake work --group G [module]`: a parent that keeps the children of one worker running.

The parent runs no processor and imports none, so nothing that a processor does can end it: not a segmentation fault, not the
kernel's out-of-memory killer, not a loop without end. It holds the children's names and their ops port.
"""

from __future__ import annotations

import fcntl
import itertools
import signal
import socket
import sys
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Annotated

import typer

from infra.running.cli import run
from infra.running.healthcheck import answers_ok
from infra.running.merged_metrics import merged, page_of
from infra.running.ops import OpsServer, listen_for_ops
from infra.running.sockets import listen
from infra.running.supervisor import Child, RestartPolicy, Supervisor
from infra.settings import Settings, check_name, environment_with, load_settings
from infra.telemetry import Telemetry
from processors.assignment import module_of
from processors.settings import GroupSettings, group_settings
from schemas.errors import ConfigError

CHILD_MODULE = "processors.child"
# Quick at first: what a dying child had in hand waits for the next one. A module that cannot live must not burn a processor.
RESTARTS = RestartPolicy(first_s=0.1, cap_s=10.0, healthy_s=10.0)
# Longer than a child needs to drain.
STOP_WITHIN_S = 25.0
LEAST_HUNG_S = 30.0

app = typer.Typer(add_completion=False)


@app.command()
def work(
    group: Annotated[str, typer.Option(help="The consumer group; every group gets every event.")],
    module: Annotated[str, typer.Argument(help="The module with the processors, or module:function; default: groups.<group>.module.")] = "",
    consumer: Annotated[str, typer.Option(help="The name of this worker within the group; keep it over restarts.")] = "",
    ops_port: Annotated[int | None, typer.Option(help="Metrics and health; default: groups.<group>.ops_port.", min=0, max=65535)] = None,
    children: Annotated[int | None, typer.Option(help="How many processes; default: groups.<group>.children.", min=1, max=64)] = None,
) -> None:
    """Runs a group's processors over its events until SIGTERM, then finishes what is in hand."""
    settings = load_settings()
    options = group_settings(settings, group)
    if ops_port is not None:
        options = options.model_copy(update={"ops_port": ops_port})
    module = module_of(options, group=group, named=module)
    if consumer:
        check_name(consumer, at="--consumer")
    with ExitStack() as stack:
        count = children or options.children
        names = [stack.enter_context(named_consumer(name, group=group, home=settings.home)) for name in wanted_names(consumer, count=count)]
        supervise(settings, group=group, module=module, options=options, names=names)


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


def supervise(settings: Settings, *, group: str, module: str, options: GroupSettings, names: list[str]) -> None:
    """Returns when a signal has ended it and every child is gone; raises ConfigError, or exits with a child's own refusal."""
    setting = f"groups.{group}.ops_port"
    with ExitStack() as stack:
        telemetry = Telemetry.start(f"worker.{group}", settings.telemetry, home=settings.home)
        stack.callback(telemetry.shutdown)
        listeners = {name: stack.enter_context(listen("127.0.0.1", port=0, setting=setting)) for name in names}
        children = [
            child(name, group=group, module=module, options=options, listener=listeners[name], home=settings.home) for name in names
        ]
        supervisor = Supervisor(children, None, lambda said: telemetry.log.info("children", group=group, said=said), policy=RESTARTS)
        ops = OpsServer(
            listen_for_ops(settings.telemetry.ops_host, port=options.ops_port, setting=setting),
            page=lambda: merged({name: page_of(port_of(listener)) for name, listener in listeners.items()}),
            is_ready=supervisor.are_all_ready,
        )
        stack.callback(ops.stop)
        ops.start()
        telemetry.log.info("worker's parent started", group=group, children=names, ops_port=ops.port)
        supervisor.run(stop_event())
        telemetry.log.info("all children are stopped", group=group)


def port_of(listener: socket.socket) -> int:
    return int(listener.getsockname()[1])


def child(name: str, *, group: str, module: str, options: GroupSettings, listener: socket.socket, home: Path) -> Child:
    port = port_of(listener)
    command = [sys.executable, "-m", CHILD_MODULE, module, "--group", group, "--consumer", name, "--ops-fd", str(listener.fileno())]
    return Child(
        name=name,
        command=command,
        environment=environment_with({"HOOKLAKE_HOME": str(home), "PYTHONSAFEPATH": "1"}),
        is_ready=lambda: answers_ok(port),
        stop_stage=0,
        # A processor may hold Python's one lock, and then no thread of the child can end it: only we can.
        is_alive=lambda: answers_ok(port, path="/healthz"),
        hung_after_s=max(LEAST_HUNG_S, options.lease_ms / 1000),
        grace_s=STOP_WITHIN_S,
        pass_fds=(listener.fileno(),),
    )


def stop_event() -> threading.Event:
    stop = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda *_: stop.set())
    return stop


if __name__ == "__main__":
    run(app, service="worker")
