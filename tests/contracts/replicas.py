"""Owns servers that copy another one: a primary's replicas, as an operator sets them up."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import redis

from infra.running.embedded import EmbeddedServer
from tests.contracts.clusters import wait_until


@dataclass(slots=True)
class ReplicatedServer(EmbeddedServer):
    """A server that may be a primary or a replica, and tells which it is."""

    def __post_init__(self) -> None:
        self.options = {
            "masterauth": self.password,
            # A lost link is made again within a tenth of a second, and a replica is not waited for before it is fed.
            "repl-diskless-sync-delay": "0",
            "repl-ping-replica-period": "1",
            **self.options,
        }

    def ask(self, *command: str | bytes | int) -> Any:
        client: Any = redis.Redis.from_url(self.url, socket_timeout=10, protocol=2, retry=None)
        with client:
            return client.execute_command(*command)

    def replication(self) -> dict[str, Any]:
        found: dict[str, Any] = self.ask("INFO", "replication")
        return found

    def is_replica(self) -> bool:
        """False also while sentinels demote it: they cut every connection that it has, this one too."""
        try:
            return bool(self.replication()["role"] == "slave")
        except redis.ConnectionError:
            return False

    def copy(self, port: int) -> None:
        """Follows the server at that port, and returns when it has all of it."""
        self.ask("REPLICAOF", "127.0.0.1", port)
        wait_until(lambda: self.replication()["master_link_status"] == "up")

    def take_over(self) -> None:
        self.ask("REPLICAOF", "NO", "ONE")

    def has_all_of(self, primary: ReplicatedServer) -> bool:
        return bool(self.replication()["slave_repl_offset"] == primary.replication()["master_repl_offset"])

    @contextmanager
    def hanging(self) -> Iterator[None]:
        os.kill(self.pid, signal.SIGSTOP)
        try:
            yield
        finally:
            os.kill(self.pid, signal.SIGCONT)
