"""Owns the cluster of the contracts: three embedded servers that share the slots."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import redis

from infra.running.embedded import EmbeddedServer
from tests.ports import free_port

# Shard 0, the only one of many tests, is on the first node; shards 1 and 2 are on the second, shard 3 is on the third.
SLOTS = ((10923, 16383), (5461, 10922), (0, 5460))
DEADLINE_S = 30.0


@dataclass(slots=True)
class ClusterNode(EmbeddedServer):
    """One server that is made to be part of a cluster."""

    bus_port: int = field(default_factory=free_port)

    def __post_init__(self) -> None:
        # The bus would be on a port that is 10000 higher, which may not exist.
        self.options = {
            "cluster-enabled": "yes",
            "cluster-port": str(self.bus_port),
            "cluster-node-timeout": "2000",
            "masterauth": self.password,
            "repl-diskless-sync-delay": "0",
            **self.options,
        }

    @property
    def id(self) -> str:
        """What the others call it."""
        return str(self.ask("CLUSTER MYID").decode())

    def ask(self, *command: str | bytes | int) -> Any:
        client: Any = redis.Redis.from_url(self.url, socket_timeout=10, protocol=2, retry=None)
        with client:
            return client.execute_command(*command)

    def knows_replica(self, node_id: str, *, of: str) -> bool:
        return any(one["node_id"] == node_id and one["master_id"] == of for one in self.ask("CLUSTER NODES").values())

    def knows_slots(self, node_id: str) -> bool:
        """Whether it knows which slots that node has."""
        return any(one["node_id"] == node_id and one["slots"] for one in self.ask("CLUSTER NODES").values())

    def is_whole(self) -> bool:
        """True when it knows all nodes, and a node for every slot."""
        info = self.ask("CLUSTER INFO")
        return bool(info["cluster_state"] == "ok" and info["cluster_known_nodes"] == str(len(SLOTS)))


@dataclass(slots=True)
class EmbeddedCluster(EmbeddedServer):
    """Three nodes that start and end together; whoever looks for one server finds the first, which has shard 0."""

    nodes: list[ClusterNode] = field(default_factory=list)
    replicas: list[ClusterNode] = field(default_factory=list)
    """Of the first node, if a test adds any; they do not start again with the others."""

    @property
    def url(self) -> str:
        addresses = ",".join(f"127.0.0.1:{node.port}" for node in self.nodes)
        return f"redis+cluster://:{self.password}@{addresses}/0"

    @property
    def pid(self) -> int:
        return self.nodes[0].pid

    def start(self) -> None:
        is_new = not self.nodes
        if is_new:
            ports = [self.port, *(free_port() for _ in SLOTS[1:])]
            self.nodes = [ClusterNode(self.directory / str(port), port, self.password, options=dict(self.options)) for port in ports]
        self.nodes[0].options |= self.options
        # The first node last: a test may make it slow to start.
        for node in reversed(self.nodes):
            node.start()
        if is_new:
            self._join()
        wait_until(lambda: all(node.is_whole() for node in self.nodes))

    def _join(self) -> None:
        for number, (node, (first, last)) in enumerate(zip(self.nodes, SLOTS, strict=True), start=1):
            node.ask("CLUSTER ADDSLOTSRANGE", first, last)
            if node.ask("CLUSTER INFO")["cluster_my_epoch"] == "0":  # it may have given itself one meanwhile
                node.ask("CLUSTER SET-CONFIG-EPOCH", number)
        for node in self.nodes[1:]:
            self.nodes[0].ask("CLUSTER MEET", "127.0.0.1", node.port, node.bus_port)

    def add_replica(self) -> ClusterNode:
        """Another node, which copies the first one."""
        port, primary = free_port(), self.nodes[0]
        node = ClusterNode(self.directory / str(port), port, self.password, options=dict(self.options))
        self.replicas.append(node)
        node.start()
        primary.ask("CLUSTER MEET", "127.0.0.1", node.port, node.bus_port)
        wait_until(lambda: all(node.id in str(other.ask("CLUSTER NODES")) for other in self.nodes))
        wait_until(lambda: primary.id in str(node.ask("CLUSTER NODES")))
        node.ask("CLUSTER REPLICATE", primary.id)
        wait_until(lambda: node.ask("INFO", "replication")["master_link_status"] == "up")
        # Whoever does not know yet whose replica it is does not vote for it, and the next election is long in coming.
        wait_until(lambda: all(other.knows_replica(node.id, of=primary.id) for other in self.nodes))
        # One that takes over before it was told what its primary has is a primary without slots, and nobody else serves them.
        wait_until(lambda: all(node.knows_slots(other.id) for other in self.nodes))
        wait_until(lambda: node.ask("CLUSTER MYSHARDID") == primary.ask("CLUSTER MYSHARDID"))
        return node

    def announce_first(self, port: int) -> None:
        """Lets all nodes say that the first is reached by another port."""
        self.nodes[0].ask("CONFIG SET", "cluster-announce-port", port)
        wait_until(lambda: all(f":{port}" in str(node.ask("CLUSTER NODES")) for node in self.nodes))

    def stop(self) -> None:
        for node in (*self.nodes, *self.replicas):
            node.stop()

    def kill(self) -> None:
        for node in (*self.nodes, *self.replicas):
            node.kill()


def wait_until(is_so: Callable[[], bool]) -> None:
    deadline = time.monotonic() + DEADLINE_S
    while not is_so():
        assert time.monotonic() < deadline, "the nodes of the cluster do not agree"
        time.sleep(0.02)


@dataclass(frozen=True, slots=True)
class SlotMove:
    """Moves a slot from one node to another as an operator's tool does, step by step."""

    slot: int
    source: ClusterNode
    target: ClusterNode

    def begin(self) -> None:
        self.target.ask("CLUSTER SETSLOT", self.slot, "IMPORTING", self.source.id)
        self.source.ask("CLUSTER SETSLOT", self.slot, "MIGRATING", self.target.id)

    def move_some(self, *, most: int = 1) -> bool:
        """Moves so many keys; false when none is left."""
        keys = self.source.ask("CLUSTER GETKEYSINSLOT", self.slot, most)
        for key in keys:
            self.move_key(key)
        return bool(keys)

    def move_key(self, key: str | bytes) -> None:
        self.source.ask("MIGRATE", "127.0.0.1", self.target.port, key, 0, 5000, "AUTH", self.target.password)

    def end(self) -> None:
        for node in (self.target, self.source):
            node.ask("CLUSTER SETSLOT", self.slot, "NODE", self.target.id)
