"""Owns one child of a worker: a consumer of the group in a process of its own, which a processor may take down with it.

`hooklake work` starts it as `python -m processors.child`. Exit codes: 0 told to stop, 2 a setting is wrong, 4 a processor
overstayed; whatever else it ends with, the parent starts the next one.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import threading
import time
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Annotated

import typer
import uvloop

from infra.running.cli import run
from infra.running.garbage import collect_garbage_seldom
from infra.running.ops import OpsServer
from infra.running.shadowing import append_user_path
from infra.running.sockets import inherited
from infra.sections import DeadLetterSettings
from infra.settings import Settings, load_settings
from infra.streams.probe import refuse_unfit_log
from infra.telemetry import Telemetry
from processors.assignment import assigned
from processors.settings import GroupSettings, group_settings
from processors.worker import DRAIN_WITHIN_S, Worker

EXIT_OVERSTAYED = 4
LOOP_ANSWERS_WITHIN_S = 1.0

app = typer.Typer(add_completion=False)


@app.command()
def child(
    module: Annotated[str, typer.Argument(help="The module with the processors, or module:function; empty for a group that forwards.")],
    group: Annotated[str, typer.Option(help="The consumer group.")],
    consumer: Annotated[str, typer.Option(help="The name of this child within the group; no other process may have it.")],
    ops_fd: Annotated[int | None, typer.Option(min=0, help="Serve metrics and health on this inherited socket.")] = None,
    check: Annotated[bool, typer.Option("--check", help="Only say whether settings and processors are fit to run.")] = False,
) -> None:
    """Runs one child of a worker; `hooklake work` starts it, and starts the next one when it dies."""
    settings = load_settings()
    options = group_settings(settings, group)
    append_user_path(Path.cwd())
    if check:
        asyncio.run(refuse_unfit(settings, group=group, options=options, module=module))
        return
    telemetry = Telemetry.start(f"worker.{group}", settings.telemetry, home=settings.home)
    telemetry.begin_group(group)
    collect_garbage_seldom()
    try:
        work = _work(settings, group=group, options=options, module=module, consumer=consumer, ops_fd=ops_fd, telemetry=telemetry)
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(work)
    finally:
        telemetry.shutdown()


async def refuse_unfit(settings: Settings, *, group: str, options: GroupSettings, module: str) -> None:
    """Raises ConfigError for whatever would keep a child from starting."""
    _ = settings.telemetry, settings.section("dead_letters", DeadLetterSettings)
    async with assigned(group, options=options, module=module, home=settings.home):
        refuse_unfit_log(settings.log, home=settings.home)


async def _work(
    settings: Settings, *, group: str, options: GroupSettings, module: str, consumer: str, ops_fd: int | None, telemetry: Telemetry
) -> None:
    """Works until it is told to stop."""
    async with AsyncExitStack() as stack:
        registry = await stack.enter_async_context(assigned(group, options=options, module=module, home=settings.home))
        refuse_unfit_log(settings.log, home=settings.home)
        worker = Worker(
            group, consumer=consumer, registry=registry, settings=options, log=settings.log, home=settings.home, telemetry=telemetry,
            dead_letters=settings.section("dead_letters", DeadLetterSettings),
        )  # fmt: skip
        if ops_fd is not None:
            ops = OpsServer(inherited(ops_fd), page=telemetry.metrics_page, is_ready=lambda: worker.makes_progress)
            stack.callback(ops.stop)
            ops.start()
        stop = asyncio.Event()
        for name in (signal.SIGTERM, signal.SIGINT):
            asyncio.get_running_loop().add_signal_handler(name, stop.set)
        names = [spec.name for spec in registry.specs]
        telemetry.log.info("worker started", group=group, consumer=consumer, processors=names, pid=os.getpid())
        await worker.run(stop, leave=Leaving(worker, stop=stop).begin)
        telemetry.log.info("worker stopped", group=group, consumer=consumer)


class Leaving:
    """Ends this process because a processor overstays: when its neighbours are settled if the event loop still turns, else at once."""

    def __init__(self, worker: Worker, *, stop: asyncio.Event) -> None:
        self._worker = worker
        self._stop = stop
        self._loop = asyncio.get_running_loop()

    def begin(self) -> None:
        """Called by the lease thread, which goes on renewing what the neighbours still have in hand."""
        threading.Thread(target=self._leave, name="leaving", daemon=True).start()

    def _leave(self) -> None:
        answered = threading.Event()
        self._loop.call_soon_threadsafe(self._stop.set)
        self._loop.call_soon_threadsafe(answered.set)
        deadline = time.monotonic() + DRAIN_WITHIN_S
        if answered.wait(LOOP_ANSWERS_WITHIN_S):
            while self._worker.has_work and time.monotonic() < deadline:
                time.sleep(0.01)
        self._worker.charge_overstaying()
        sys.stderr.flush()
        # Nothing less would do: the loop may never turn again, and a thread cannot be stopped.
        os._exit(EXIT_OVERSTAYED)


if __name__ == "__main__":
    run(app, service="worker")
