"""Owns the worker process: `hooklake work --group G [module]`."""

from __future__ import annotations

import asyncio
import fcntl
import itertools
import os
import signal
import socket
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Annotated

import typer

from infra.running.cli import run
from infra.running.ops import OpsServer
from infra.running.shadowing import append_user_path
from infra.settings import Settings, check_name, load_settings
from infra.streams.probe import refuse_unfit_log
from infra.telemetry import Telemetry
from processors.registry import load
from processors.settings import GroupSettings, group_settings
from processors.worker import Worker
from schemas.errors import ConfigError

app = typer.Typer(add_completion=False)


@app.command()
def work(
    group: Annotated[str, typer.Option(help="The consumer group; every group gets every event.")],
    module: Annotated[str, typer.Argument(help="The module with the processors, or module:function; default: groups.<group>.module.")] = "",
    consumer: Annotated[str, typer.Option(help="The name of this worker within the group; keep it over restarts.")] = "",
) -> None:
    """Runs a group's processors over its events until SIGTERM, then finishes what is in hand."""
    settings = load_settings()
    options = group_settings(settings, group)
    module = module or options.module
    if not module:
        raise ConfigError(f"groups.{group}.module is not set and no module was named, so group {group} would have nothing to run")
    append_user_path(Path.cwd())
    if consumer:
        check_name(consumer, at="--consumer")
    with named_consumer(consumer, group=group, home=settings.home) as name:
        asyncio.run(_work(settings, group=group, options=options, module=module, consumer=name))


@contextmanager
def named_consumer(name: str, *, group: str, home: Path) -> Iterator[str]:
    """This worker's name in its group, held for as long as it runs: the given one, or the first free of this machine's.

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


async def _work(settings: Settings, *, group: str, options: GroupSettings, module: str, consumer: str) -> None:
    with ExitStack() as stack:
        telemetry = Telemetry.start(f"worker.{group}", settings.telemetry, home=settings.home)
        stack.callback(telemetry.shutdown)
        registry = load(module)
        refuse_unfit_log(settings.log, home=settings.home)
        worker = Worker(
            group, consumer=consumer, registry=registry, settings=options, log=settings.log, home=settings.home, telemetry=telemetry
        )
        setting = f"groups.{group}.ops_port"
        ops = OpsServer(
            options.ops_port, host=settings.telemetry.ops_host, telemetry=telemetry, is_ready=lambda: worker.is_reading, setting=setting
        )
        stack.callback(ops.stop)
        ops.start()
        stop = asyncio.Event()
        for name in (signal.SIGTERM, signal.SIGINT):
            asyncio.get_running_loop().add_signal_handler(name, stop.set)
        names = [spec.name for spec in registry.specs]
        telemetry.log.info("worker started", group=group, consumer=consumer, processors=names, pid=os.getpid())
        await worker.run(stop)
        telemetry.log.info("worker stopped", group=group)


if __name__ == "__main__":
    run(app)
