"""Owns what the supervisor knows of the services: their names, commands, ports and order; their settings stay their own.

`infra` never imports a service, so the few fields that a launcher needs are read here by name. A test compares names and
defaults with the services' own models.
"""

from __future__ import annotations

from dataclasses import dataclass

from pydantic import BaseModel, ConfigDict, Field

from infra.settings import Settings
from schemas.errors import ConfigError

RECEIVER = "receiver"
WORKER = "worker"
ARCHIVE = "archive"


class ReceiverPorts(BaseModel):
    """The fields of section `ingest` that others than the receiver need."""

    model_config = ConfigDict(extra="ignore", frozen=True)

    host: str = "127.0.0.1"
    port: int = Field(8080, ge=0, le=65535)
    ops_port: int = Field(9101, ge=0, le=65535)


class WorkerPorts(BaseModel):
    """The field of a group that others than its worker need."""

    model_config = ConfigDict(extra="ignore", frozen=True)

    ops_port: int = Field(9102, ge=0, le=65535)


class ArchivePorts(BaseModel):
    """The fields of section `archive` that others than the archive need."""

    model_config = ConfigDict(extra="ignore", frozen=True)

    ops_port: int = Field(9103, ge=0, le=65535)
    connect: bool = True
    connect_port: int = Field(15002, ge=0, le=65535)


CONNECT_SETTING = "archive.connect_port"
CONNECT_FILE = "run/connect"
"""Where the archive writes the address of its Spark Connect, token and all, for whoever may read the home."""


@dataclass(frozen=True, slots=True)
class Service:
    """One process of an installation."""

    name: str
    kind: str
    module: str
    arguments: tuple[str, ...]
    ops_port: int
    ops_setting: str
    ops_host: str = "127.0.0.1"
    """Where the ops port listens; `reachable` says where to ask."""


def services_of(settings: Settings) -> list[Service]:
    """Receiver, a worker per group, archive; raises ConfigError when a field that we read is wrong."""
    receiver = settings.section("ingest", ReceiverPorts)
    groups = settings.named_sections("groups", WorkerPorts)
    archive = settings.section("archive", ArchivePorts)
    host = settings.telemetry.ops_host
    workers = [
        Service(f"{WORKER}-{group}", WORKER, "processors", ("--group", group), ports.ops_port, f"groups.{group}.ops_port", host)
        for group, ports in groups.items()
    ]
    return [
        Service(RECEIVER, RECEIVER, "ingest", (), receiver.ops_port, "ingest.ops_port", host),
        *workers,
        Service(ARCHIVE, ARCHIVE, "analytics", (), archive.ops_port, "archive.ops_port", host),
    ]


def connect_port(settings: Settings) -> int:
    """Where the archive's Spark Connect listens; 0 when that is any free port, or nowhere."""
    archive = settings.section("archive", ArchivePorts)
    return archive.connect_port if archive.connect else 0


def refuse_unasked_ports(settings: Settings) -> None:
    """Raises ConfigError for an ops port that nobody could find: the process would take a free one and tell its log only."""
    for service in services_of(settings):
        if service.ops_port == 0:
            raise ConfigError(
                f"{service.ops_setting}=0 takes any free port, so `up` could not ask {service.name} whether it is ready: set a port"
            )


def refuse_shared_ports(settings: Settings) -> None:
    """Raises ConfigError naming both settings when two of them want one port."""
    wanted = [(settings.section("ingest", ReceiverPorts).port, "ingest.port")]
    wanted += [(service.ops_port, service.ops_setting) for service in services_of(settings)]
    wanted += [(connect_port(settings), CONNECT_SETTING)]
    taken: dict[int, str] = {}
    for port, setting in wanted:
        if port and port in taken:
            raise ConfigError(f"{setting}={port} is also {taken[port]}, so the second process could not start: give it another port")
        taken[port] = setting
