"""Owns `hooklake ingest`: a parent that keeps the listening socket open and the receivers on it running.

The parent handles no request. Its socket outlives every receiver, so that connections wait in its queue while one receiver
makes way for the next: nobody is refused, whether a receiver dies, stops, or is replaced because of SIGHUP.

    SIGTERM, SIGINT    receivers answer what they have accepted, and everything ends
    SIGHUP             settings are read again; if they are fit, receivers are replaced one by one, the new one first

Exit codes: 0 told to stop, 2 a setting is wrong, or the log would lose events as it starts.
"""

from __future__ import annotations

import socket
from contextlib import ExitStack
from typing import Annotated

import typer

from infra.running.child import RestartPolicy
from infra.running.cli import run
from infra.running.merged_metrics import merged, page_of
from infra.running.ops import OpsServer, listen_for_ops
from infra.running.reloading import Reloading, stop_event
from infra.running.sockets import inherited, listen
from infra.running.supervisor import Supervisor
from infra.settings import home_directory
from infra.telemetry import Telemetry
from ingest.crew import Crew, Found, find_fit
from ingest.settings import IngestSettings

CHILD_MODULE = "ingest.child"
# Quick at first: senders wait in the queue meanwhile.
RESTARTS = RestartPolicy(first_s=0.1, cap_s=10.0, healthy_s=10.0)

cli = typer.Typer(add_completion=False)


@cli.command()
def main(
    fd: Annotated[int | None, typer.Option(min=0, help="Serve on this listening socket, inherited from a supervisor.")] = None,
    host: Annotated[str | None, typer.Option(help="Listen on this address instead of ingest.host.")] = None,
    port: Annotated[int | None, typer.Option(min=0, max=65535, help="Listen on this port instead of ingest.port.")] = None,
) -> None:
    """Runs the receivers until SIGTERM or Ctrl-C; then they answer what they have accepted, and stop. SIGHUP replaces them one by one,
    by such as know the settings as they are then."""
    found = find_fit(home_directory())
    listener = inherited(fd) if fd is not None else _listen(found.ingest, host=host, port=port)
    with listener:
        supervise(found, listener=listener)


def _listen(ingest: IngestSettings, *, host: str | None, port: int | None) -> socket.socket:
    wanted = ingest.port if port is None else port
    return listen(host or ingest.host, port=wanted, setting="ingest.port", host_setting="ingest.host")


def supervise(found: Found, *, listener: socket.socket) -> None:
    """Returns when a signal has ended it and every receiver is gone; raises ConfigError, or exits with a receiver's own refusal."""
    with ExitStack() as stack:
        telemetry = Telemetry.start("ingest", found.settings.telemetry, home=found.settings.home)
        stack.callback(telemetry.shutdown)

        def say(said: str) -> None:
            telemetry.log.info("receivers", said=said)

        crew = Crew(found, listener=listener, child_module=CHILD_MODULE, held=stack)
        # Where the socket is ours alone, newcomers are refused from the first moment, and need not wait in vain.
        supervisor = Supervisor(crew.muster(), None, say, policy=RESTARTS, before_stop=listener.close)
        reloading = Reloading(
            look=lambda: find_fit(found.settings.home),
            take_over=lambda new: crew.make_way(new, supervisor=supervisor, say=say),
            say=say,
        )
        supervisor.each_look = reloading.go_on
        ops = OpsServer(
            listen_for_ops(found.settings.telemetry.ops_host, port=found.ingest.ops_port, setting="ingest.ops_port"),
            page=lambda: merged({name: page_of(crew.port_of(name)) for name in supervisor.names()}, shared_gauges=False),
            is_ready=supervisor.is_any_ready,
            remark=reloading.remark,
        )
        stack.callback(ops.stop)
        ops.start()
        address = listener.getsockname()
        telemetry.log.info("receiver listening", host=address[0], port=address[1], ops_port=ops.port, sources=found.sources)
        supervisor.run(stop_event(reloading))
        telemetry.log.info("all receivers are stopped")


if __name__ == "__main__":
    run(cli, service="ingest")
