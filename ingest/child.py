"""Owns one receiver: a process that serves on a socket that its parent keeps, until its parent tells it to go.

`hooklake ingest` starts it as `python -m ingest.child`. Exit codes: 0 told to stop or to leave, 2 a setting is wrong; whatever
else it ends with, the parent starts the next one.
"""

from __future__ import annotations

import contextlib
import os
import socket
import threading
from collections.abc import AsyncIterator, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer
from starlette.applications import Starlette

from infra.clock import Clock, EventIds
from infra.running.cli import run
from infra.running.descriptors import room_for_connections
from infra.running.garbage import collect_garbage_seldom
from infra.running.ops import OpsServer
from infra.running.serving import serve
from infra.running.sockets import inherited
from infra.sections import QuarantineSettings
from infra.setting_files import FilesKept
from infra.settings import Settings, load_settings
from infra.streams.stream import EventStream
from infra.telemetry import Telemetry
from ingest.app import App, Lifespan
from ingest.appending import Appender
from ingest.drain import Drain
from ingest.keeping import Keeper
from ingest.limits import InFlight
from ingest.noting import Noting
from ingest.quarantine import Quarantine
from ingest.rates import Rates
from ingest.receive import Receiver
from ingest.settings import IngestSettings
from ingest.sources import Sources
from ingest.spool import Spool
from ingest.subscriptions import Confirmations
from ingest.watch import LogWatch
from ingest.windows import windows_of
from schemas.errors import StreamUnavailable

cli = typer.Typer(add_completion=False)


@cli.command()
def child(
    fd: Annotated[int, typer.Option(min=0, help="Serve on this listening socket, inherited from the parent.")],
    ops_fd: Annotated[int, typer.Option(min=0, help="Serve metrics and health on this inherited socket.")],
    settings_fd: Annotated[
        int, typer.Option(min=0, help="Settings, secrets and schemas as the parent found them fit: this inherited file.")
    ],
    name: Annotated[str, typer.Option(help="What the parent calls this receiver.")] = "receiver",
) -> None:
    """Runs one receiver; `hooklake ingest` starts it, and starts the next one when it dies."""
    # Nothing is read from the disk: whatever happened to the files since, the parent found these fit.
    settings = load_settings(files=FilesKept.take(settings_fd))
    ingest = settings.section("ingest", IngestSettings)
    sources = Sources.from_settings(settings)
    telemetry = Telemetry.start("ingest", settings.telemetry, home=settings.home)
    try:
        with inherited(fd) as listener:
            _serve(settings, ingest=ingest, sources=sources, listener=listener, ops=inherited(ops_fd), name=name, telemetry=telemetry)
    finally:
        telemetry.shutdown()


def _serve(
    settings: Settings,
    *,
    ingest: IngestSettings,
    sources: Sources,
    listener: socket.socket,
    ops: socket.socket,
    name: str,
    telemetry: Telemetry,
) -> None:
    clock = Clock()
    stream = EventStream.open(settings.log, home=settings.home, clock=clock, windows=windows_of(settings))
    watch = LogWatch(settings.log, home=settings.home, stream=stream, telemetry=telemetry)
    _look_once(watch, telemetry=telemetry)
    spool = hold_spool(ingest, home=settings.home, telemetry=telemetry, clock=clock)
    noting = Noting(spool.folder, clock=clock, telemetry=telemetry) if spool is not None else None
    appender = Appender(stream, watch, telemetry, noting)
    keeper = Keeper(appender, spool=spool)
    drain = Drain(appender, spool=spool, keeper=keeper, home=settings.home) if spool is not None else None
    ids = EventIds(clock)
    quarantine = Quarantine(stream, settings=settings.section("quarantine", QuarantineSettings), ids=ids, clock=clock, telemetry=telemetry)
    receiver = Receiver(
        settings=ingest,
        sources=sources,
        keeper=keeper,
        telemetry=telemetry,
        clock=clock,
        ids=ids,
        in_flight=InFlight(ingest.max_in_flight, limit_bytes=ingest.max_in_flight_bytes),
        confirmations=Confirmations(telemetry.log),
        rates=Rates(clock.monotonic),
        quarantine=quarantine,
    )
    for tenant, source in sources.by_route:
        for counter in (telemetry.produced, telemetry.spooled):
            counter.add(0, {"tenant": tenant, "source": source})
    draining = threading.Event()
    ops_server = OpsServer(ops, page=telemetry.metrics_page, is_ready=lambda: keeper.is_ready and not draining.is_set())
    ops_server.start()
    try:
        limits = replace(ingest.serving_limits(), max_connections=room_for_connections(ingest.max_connections))
        known = {"sources": len(sources.by_route), "max_connections": limits.max_connections}
        telemetry.log.info("receiver started", name=name, **known, pid=os.getpid())
        key_use = receiver.key_use.running(stream, telemetry=telemetry)
        lifespan = _lifespan(stream, running=[watch.running(), quarantine.running(), key_use], spool=spool, drain=drain, noting=noting)
        app = App(receiver, lifespan=lifespan)
        collect_garbage_seldom()
        serve(app, listener=listener, limits=limits, direct=app.direct, is_proxy=app.proxies.has, on_drain=draining.set)
        telemetry.log.info("receiver stopped", name=name, pid=os.getpid())
    finally:
        ops_server.stop()


def _look_once(watch: LogWatch, *, telemetry: Telemetry) -> None:
    try:
        watch.look()
    except StreamUnavailable as error:
        telemetry.log.warning("the log is not there yet", reason=str(error))


def hold_spool(ingest: IngestSettings, *, home: Path, telemetry: Telemetry, clock: Clock) -> Spool | None:
    """None where there is none, also when its disk fails: a receiver without one still has its log."""
    if not ingest.spool:
        return None
    try:
        spool = Spool.hold(home, max_bytes=ingest.spool_max_bytes, clock=clock)
    except OSError as error:
        telemetry.log.error("no spool can be used, so what the log does not take is refused", reason=str(error))
        return None
    telemetry.log.info("spool held", receiver=spool.folder.receiver, size_bytes=spool.size_bytes)
    return spool


def _lifespan(
    stream: EventStream,
    *,
    running: Sequence[AbstractAsyncContextManager[None]],
    spool: Spool | None,
    drain: Drain | None,
    noting: Noting | None,
) -> Lifespan:
    @contextlib.asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        async with contextlib.AsyncExitStack() as stack:
            for loop in running:
                await stack.enter_async_context(loop)
            if spool is not None and drain is not None and noting is not None:
                spool.start()
                stack.push_async_callback(spool.close)
                await stack.enter_async_context(noting.running())
                await stack.enter_async_context(drain.running())
            yield
        await stream.close()

    return lifespan


if __name__ == "__main__":
    run(cli, service="ingest")
