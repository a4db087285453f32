"""Owns a log that sentinels watch: a primary, two replicas, and three sentinels that agree on which is which."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import redis

from infra.running.embedded import EmbeddedServer
from tests.contracts.clusters import wait_until
from tests.contracts.replicas import ReplicatedServer
from tests.ports import free_port

SERVICE = "the-log"
SENTINEL_PASSWORD = "a-sentinel-password"
DOWN_AFTER_MS = 500
# As short as a loaded machine allows; sentinels in earnest look at each other every two seconds and at servers every ten.
HASTE = {
    "INFO-PERIOD": 100,
    "PING-PERIOD": 400,
    "ASK-PERIOD": 100,
    "PUBLISH-PERIOD": 600,
    "ELECTION-TIMEOUT": 1000,
    "TILT-PERIOD": 1000,
}


@dataclass(slots=True)
class Sentinel(EmbeddedServer):
    """One of those who watch; it writes what it learns into its own configuration."""

    primary_port: int = 0
    primary_password: str = ""

    def command(self) -> list[str]:
        program, configuration = EmbeddedServer.command(self)
        return [program, configuration, "--sentinel"]

    def _write_config(self) -> Path:
        self.directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        path = self.directory / "sentinel.conf"
        if not path.exists():
            path.write_text(
                f"bind 127.0.0.1\nport {self.port}\nrequirepass {self.password}\ndir {self.directory}\n"
                f"sentinel monitor {SERVICE} 127.0.0.1 {self.primary_port} 2\n"
                f"sentinel auth-pass {SERVICE} {self.primary_password}\n"
                f"sentinel down-after-milliseconds {SERVICE} {DOWN_AFTER_MS}\n"
                f"sentinel failover-timeout {SERVICE} 5000\n"
            )
        return path

    def start(self) -> None:
        EmbeddedServer.start(self)
        for name, value in HASTE.items():
            self.ask("DEBUG", name, value)

    def ask(self, command: str, *arguments: str | int) -> Any:
        client: Any = redis.Redis.from_url(self.url, socket_timeout=10, protocol=2, retry=None, decode_responses=True)
        with client:
            return client.execute_command(f"SENTINEL {command}", *arguments)

    def knows(self, *, replicas: int, others: int) -> bool:
        found = self.ask("MASTER", SERVICE)
        return bool(found["num-slaves"] == replicas and found["num-other-sentinels"] == others)

    def primary_is(self) -> int:
        """The port of whom it takes for the primary."""
        return int(self.ask("GET-MASTER-ADDR-BY-NAME", SERVICE)[1])


@dataclass(slots=True)
class SentinelSet(EmbeddedServer):
    """All of them start and end together; `port` is that of the first primary."""

    servers: list[ReplicatedServer] = field(default_factory=list)
    """The first is the primary to begin with."""
    sentinels: list[Sentinel] = field(default_factory=list)

    @property
    def url(self) -> str:
        addresses = ",".join(f"127.0.0.1:{sentinel.port}" for sentinel in self.sentinels)
        return f"redis+sentinel://:{self.password}@{addresses}/{SERVICE}?sentinel_password={SENTINEL_PASSWORD}"

    @property
    def pid(self) -> int:
        return self.servers[0].pid

    @property
    def primary(self) -> ReplicatedServer:
        """As the sentinels see it now; a server that has taken over without a word of them is not."""
        return next(server for server in self.servers if server.port == self.sentinels[0].primary_is())

    def start(self) -> None:
        ports = [self.port, free_port(), free_port()]
        self.servers = [ReplicatedServer(self.directory / str(port), port, self.password, options=dict(self.options)) for port in ports]
        for server in self.servers:
            server.start()
        for replica in self.servers[1:]:
            replica.copy(self.port)
        for number in range(3):
            sentinel = Sentinel(self.directory / f"sentinel-{number}", free_port(), SENTINEL_PASSWORD, {}, None, self.port, self.password)
            self.sentinels.append(sentinel)
            sentinel.start()
        wait_until(lambda: all(sentinel.knows(replicas=2, others=2) for sentinel in self.sentinels))

    def wait_for_another_primary(self, than: ReplicatedServer) -> ReplicatedServer:
        """Returns when all sentinels have agreed on it, and the other replica follows it."""
        wait_until(lambda: than.port not in {sentinel.primary_is() for sentinel in self.sentinels})
        wait_until(lambda: self.primary.replication()["connected_slaves"] >= 1)
        return self.primary

    def stop(self) -> None:
        self.kill()

    def kill(self) -> None:
        for one in (*self.sentinels, *self.servers):
            one.kill()
