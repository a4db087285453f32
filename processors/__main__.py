"""Owns the worker process: `hooklake work --group G [module]`."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
from pathlib import Path
from typing import Annotated

import typer

from infra.running.cli import run
from infra.running.ops import OpsServer
from infra.running.shadowing import append_user_path
from infra.settings import Settings, load_settings
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
    asyncio.run(_work(settings, group=group, options=options, module=module, consumer=consumer or default_consumer()))


def default_consumer() -> str:
    """Stable over restarts on one machine, so that dead names do not pile up in the group."""
    return f"{socket.gethostname()}-0"


async def _work(settings: Settings, *, group: str, options: GroupSettings, module: str, consumer: str) -> None:
    telemetry = Telemetry.start(f"worker.{group}", settings.telemetry, home=settings.home)
    try:
        registry = load(module)
        refuse_unfit_log(settings.log, home=settings.home)
        worker = Worker(
            group, consumer=consumer, registry=registry, settings=options, log=settings.log, home=settings.home, telemetry=telemetry
        )
        setting = f"groups.{group}.ops_port"
        ops = OpsServer(
            options.ops_port, host=settings.telemetry.ops_host, telemetry=telemetry, is_ready=lambda: worker.is_reading, setting=setting
        )
        ops.start()
        stop = asyncio.Event()
        for name in (signal.SIGTERM, signal.SIGINT):
            asyncio.get_running_loop().add_signal_handler(name, stop.set)
        names = [spec.name for spec in registry.specs]
        telemetry.log.info("worker started", group=group, consumer=consumer, processors=names, pid=os.getpid())
        await worker.run(stop)
        telemetry.log.info("worker stopped", group=group)
        ops.stop()
    finally:
        telemetry.shutdown()


if __name__ == "__main__":
    run(app)
