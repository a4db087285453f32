"""Owns `hooklake work --group G [module]`: a parent that keeps the children of one worker running.

The parent runs no processor and imports none, so nothing that a processor does can end it: not a segmentation fault, not the
kernel's out-of-memory killer, not a loop without end. It holds the children's names, their ops port and their settings.
"""

from __future__ import annotations

from contextlib import ExitStack
from typing import Annotated

import typer

from infra.running.child import RestartPolicy
from infra.running.cli import run
from infra.running.merged_metrics import merged, page_of
from infra.running.ops import OpsServer, listen_for_ops
from infra.running.reloading import Reloading, stop_event
from infra.running.succession import replaced
from infra.running.supervisor import Supervisor
from infra.settings import Settings, check_name, load_settings
from infra.telemetry import Telemetry
from processors.crew import Crew, Wanted

CHILD_MODULE = "processors.child"
# Quick at first: what a dying child had in hand waits for the next one. A module that cannot live must not burn a processor.
RESTARTS = RestartPolicy(first_s=0.1, cap_s=10.0, healthy_s=10.0)

app = typer.Typer(add_completion=False)


@app.command()
def work(
    group: Annotated[str, typer.Option(help="The consumer group; every group gets every event.")],
    module: Annotated[str, typer.Argument(help="The module with the processors, or module:function; default: groups.<group>.module.")] = "",
    consumer: Annotated[str, typer.Option(help="The name of this worker within the group; keep it over restarts.")] = "",
    ops_port: Annotated[int | None, typer.Option(help="Metrics and health; default: groups.<group>.ops_port.", min=0, max=65535)] = None,
    children: Annotated[int | None, typer.Option(help="How many processes; default: groups.<group>.children.", min=1, max=64)] = None,
) -> None:
    """Runs a group's processors over its events until SIGTERM, then finishes what is in hand. SIGHUP takes changed settings over."""
    if consumer:
        check_name(consumer, at="--consumer")
    supervise(load_settings(), wanted=Wanted(group, module, consumer, ops_port, children))


def supervise(settings: Settings, *, wanted: Wanted) -> None:
    """Returns when a signal has ended it and every child is gone; raises ConfigError, or exits with a child's own refusal."""
    with ExitStack() as stack:
        crew = Crew(wanted, home=settings.home, child_module=CHILD_MODULE, held=stack)
        options = crew.muster()
        telemetry = Telemetry.start(f"worker.{wanted.group}", settings.telemetry, home=settings.home)
        stack.callback(telemetry.shutdown)

        def say(said: str) -> None:
            telemetry.log.info("children", group=wanted.group, said=said)

        supervisor = Supervisor(crew.children(options), None, say, policy=RESTARTS)
        reloading = Reloading(
            look=crew.muster_again,
            take_over=lambda options: replaced(crew.children(options), supervisor=supervisor, say=say),
            say=say,
        )
        supervisor.each_look = reloading.go_on
        ops = OpsServer(
            listen_for_ops(settings.telemetry.ops_host, port=options.ops_port, setting=f"groups.{wanted.group}.ops_port"),
            page=lambda: merged({name: page_of(crew.port_of(name)) for name in supervisor.names()}),
            is_ready=supervisor.are_all_ready,
            remark=reloading.remark,
        )
        stack.callback(ops.stop)
        ops.start()
        names = [child.name for child in supervisor.children]
        telemetry.log.info("worker's parent started", group=wanted.group, children=names, ops_port=ops.port)
        supervisor.run(stop_event(reloading))
        telemetry.log.info("all children are stopped", group=wanted.group)


if __name__ == "__main__":
    run(app, service="worker")
