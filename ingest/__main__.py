"""Runs a receiver: `python -m ingest`, also known as `hooklake ingest`."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import AsyncIterator
from typing import Annotated

import typer
from starlette.applications import Starlette

from infra.clock import Clock, EventIds
from infra.running.cli import run
from infra.running.descriptors import room_for_connections
from infra.running.ops import OpsServer
from infra.running.serving import ServingLimits, serve
from infra.running.sockets import inherited, listen
from infra.settings import Settings, load_settings
from infra.streams.stream import EventStream
from infra.telemetry import Telemetry
from ingest.app import App, Lifespan
from ingest.limits import InFlight
from ingest.rates import Rates
from ingest.receive import Receiver
from ingest.settings import IngestSettings
from ingest.sources import Sources
from ingest.watch import LogWatch
from schemas.errors import StreamUnavailable

cli = typer.Typer(add_completion=False)


@cli.command()
def main(
    fd: Annotated[int | None, typer.Option(min=0, help="Serve on this listening socket, inherited from a supervisor.")] = None,
    host: Annotated[str | None, typer.Option(help="Listen on this address instead of ingest.host.")] = None,
    port: Annotated[int | None, typer.Option(min=0, max=65535, help="Listen on this port instead of ingest.port.")] = None,
) -> None:
    """Runs the receiver until SIGTERM or Ctrl-C; then it answers what it has accepted, and stops."""
    settings = load_settings()
    ingest = settings.section("ingest", IngestSettings)
    sources = Sources.from_settings(settings)
    if fd is not None:
        listener = inherited(fd)
    else:
        wanted = ingest.port if port is None else port
        listener = listen(host or ingest.host, port=wanted, setting="ingest.port", host_setting="ingest.host")
    telemetry = Telemetry.start("ingest", settings.telemetry, home=settings.home)
    try:
        _run(settings, ingest=ingest, sources=sources, listener=listener, telemetry=telemetry)
    finally:
        telemetry.shutdown()


def _run(settings: Settings, *, ingest: IngestSettings, sources: Sources, listener: socket.socket, telemetry: Telemetry) -> None:
    clock = Clock()
    stream = EventStream.open(settings.log, home=settings.home, clock=clock)
    watch = LogWatch(settings.log, home=settings.home, stream=stream, telemetry=telemetry)
    _look_once(watch, telemetry=telemetry)
    receiver = Receiver(
        settings=ingest,
        sources=sources,
        stream=stream,
        watch=watch,
        telemetry=telemetry,
        clock=clock,
        ids=EventIds(clock),
        in_flight=InFlight(ingest.max_in_flight, limit_bytes=ingest.max_in_flight_bytes),
        rates=Rates(clock.monotonic),
    )
    for tenant, name in sources.by_route:
        telemetry.produced.add(0, {"tenant": tenant, "source": name})
    host = settings.telemetry.ops_host
    ops = OpsServer.bound(ingest.ops_port, host=host, telemetry=telemetry, is_ready=lambda: watch.is_ready, setting="ingest.ops_port")
    ops.start()
    try:
        address, limits = listener.getsockname(), _limits(ingest)
        places = {"host": address[0], "port": address[1], "ops_port": ops.port, "max_connections": limits.max_connections}
        telemetry.log.info("receiver listening", **places, sources=len(sources.by_route))
        serve(App(receiver, lifespan=_lifespan(stream, watch)), listener=listener, limits=limits)
        telemetry.log.info("receiver stopped")
    finally:
        ops.stop()
    if watch.verdict is not None:
        raise watch.verdict


def _look_once(watch: LogWatch, *, telemetry: Telemetry) -> None:
    try:
        watch.look()
    except StreamUnavailable as error:
        telemetry.log.warning("the log is not there yet; answering 503 until it is", reason=str(error))


def _lifespan(stream: EventStream, watch: LogWatch) -> Lifespan:
    @contextlib.asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        async with watch.running():
            yield
        await stream.close()

    return lifespan


def _limits(ingest: IngestSettings) -> ServingLimits:
    return ServingLimits(
        head_timeout_ms=ingest.head_timeout_ms,
        # The exact cap is the application's; this one bounds what the parser keeps before there is a request.
        max_head_bytes=4 * ingest.max_header_bytes,
        idle_timeout_ms=ingest.idle_timeout_ms,
        max_connections=room_for_connections(ingest.max_connections),
        grace_ms=ingest.grace_ms,
    )


if __name__ == "__main__":
    run(cli, service="ingest")
