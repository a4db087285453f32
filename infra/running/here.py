"""Owns what can be said of an installation without its log: which processes are ready, what waits in spools, what the settings allow."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from rich.console import Console
from rich.markup import escape

from infra.running.announce import unsigned_sources
from infra.running.healthcheck import is_fine, remark_of
from infra.running.services import Service, services_of
from infra.settings import Settings
from infra.spools import SpoolState, read_spools
from schemas.event import from_epoch_ms

READINESS = {True: "[green]ready[/]", False: "[red]not ready[/]", None: "unknown (its ops_port is 0, so it cannot be asked)"}


@dataclass(frozen=True, slots=True)
class Here:
    """What this machine knows by itself."""

    processes: dict[str, bool | None]
    """Whether each is ready; None when its ops port is a free one, so that it cannot be asked."""
    remarks: list[str] = field(default_factory=list)
    """What those that run would like a person to know."""
    spools: list[SpoolState] = field(default_factory=list)
    unsigned: list[str] = field(default_factory=list)
    durability: str = "fsync"

    @property
    def needs(self) -> list[str]:
        """A sentence for everything that will not heal by itself."""
        return [*not_ready(self.processes), *self.remarks, *spool_needs(self.spools)]

    @property
    def in_spools(self) -> int:
        return sum(spool.events for spool in self.spools)


def look_here(settings: Settings) -> Here:
    services = services_of(settings)
    return Here(
        processes={service.name: is_fine(service) for service in services},
        remarks=remarks_of(services),
        spools=read_spools(settings.home),
        unsigned=unsigned_sources(settings),
        durability=settings.log.durability,
    )


def remarks_of(services: Sequence[Service]) -> list[str]:
    """What services that run would like a person to know."""
    return [f"{service.name}: {remark}" for service in services if service.ops_port and (remark := remark_of(service))]


def not_ready(processes: dict[str, bool | None]) -> list[str]:
    return [f"{name} is not ready: see logs/{name}.log, or `hooklake doctor`" for name, is_ready in processes.items() if is_ready is False]


def spool_needs(spools: Sequence[SpoolState]) -> list[str]:
    """What no receiver that runs will see to. Pure."""
    left = [
        f"{spool.events} events wait in the spool of {spool.receiver}, and no receiver runs that would append them: start one"
        for spool in spools
        if spool.events and not spool.is_held
    ]
    damaged = [
        f"the spool of {spool.receiver} has {spool.damaged} damaged places: see `hooklake doctor`" for spool in spools if spool.damaged
    ]
    return left + damaged


def spool_lines(spools: Sequence[SpoolState]) -> list[str]:
    """How much waits in each, and since when. Pure."""
    return [
        f"spool of {spool.receiver}: {spool.events} events ({spool.size_bytes} bytes) wait for the log{_since(spool.oldest_ms)}"
        for spool in spools
        if spool.events
    ]


def show_warnings(console: Console, *, durability: str, unsigned: Sequence[str]) -> None:
    if durability == "relaxed":
        console.print("[red]log.durability is relaxed: a crash or a power cut may lose the last seconds of what was accepted[/]")
    for source in unsigned:
        console.print(f"[red]{escape(source)} is unsigned: whoever knows its address can send[/]")


def show_processes(console: Console, *, processes: dict[str, bool | None], needs: Sequence[str]) -> None:
    for name, is_ready in processes.items():
        console.print(f"{escape(name)}: {READINESS[is_ready]}")
    for sentence in needs:
        console.print(f"[red]![/] {escape(sentence)}")


def show_here(here: Here) -> None:
    console = Console(highlight=False, soft_wrap=True)
    show_warnings(console, durability=here.durability, unsigned=here.unsigned)
    console.print("the log does not answer, so nothing but this is known")
    for line in spool_lines(here.spools) or ["no events wait in spools"]:
        console.print(line)
    show_processes(console, processes=here.processes, needs=here.needs)


def _since(oldest_ms: int | None) -> str:
    return "" if oldest_ms is None else f", the oldest since {from_epoch_ms(oldest_ms):%Y-%m-%d %H:%M:%S} UTC"
