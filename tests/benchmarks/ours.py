"""Owns our worker as a contender: one `python -m processors` with the settings it is shipped with."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from infra.running.embedded import EmbeddedServer
from infra.running.initialise import initialise
from infra.settings import LogSettings, environment_with
from infra.streams.connection import open_blocking
from infra.streams.keys import Keys
from schemas.event import Priority
from tests.benchmarks.filling import Filling
from tests.benchmarks.racing import start_process

ROOT = Path(__file__).parent.parent.parent
GROUP = "bench"
SILENT = "a-silent-consumer"


@dataclass(frozen=True, slots=True)
class Hooklake:
    """Done is what the log says is settled, so each event counted is durably acked."""

    events: int
    settled_before: int = 0
    """Entries in the streams that the group is done with already."""
    pending_before: int = 0
    """Entries that another consumer of the group holds all the while."""
    name: str = "hooklake"

    def fill(self, server: EmbeddedServer, folder: Path) -> None:
        client, streams = a_client(server, folder), streams_of(Priority.DEFAULT)
        try:
            self._fill_once(client, streams=streams)
            Filling(client).add(streams, count=self.events)
        finally:
            client.close()

    def _fill_once(self, client: Any, *, streams: list[str]) -> None:
        """A server that is measured again keeps what it had."""
        if client.exists(*streams):
            return
        Filling(client).add(streams, count=self.settled_before)
        for stream in streams:
            client.xgroup_create(stream, GROUP, "$", mkstream=True, entries_read=client.xlen(stream) if client.exists(stream) else 0)
        Filling(client).add(streams, count=self.pending_before)
        for stream in streams:
            client.xreadgroup(GROUP, SILENT, {stream: ">"}, count=self.pending_before or 1)

    def start(self, server: EmbeddedServer, folder: Path) -> subprocess.Popen[bytes]:
        # The silent consumer's entries are there to lie in the way, not to be taken over in the middle of the measurement.
        overrides = {"HOOKLAKE_GROUPS__BENCH__LEASE_MS": str(24 * 3600 * 1000)} if self.pending_before else {}
        return start_worker("tests.benchmarks.noop", server=server, folder=folder, overrides=overrides)

    def counter(self, server: EmbeddedServer, folder: Path) -> Callable[[], int]:
        client, streams = a_client(server, folder), streams_of(Priority.DEFAULT)
        return lambda: self.events + self.pending_before - unsettled(client, streams=streams)


def start_worker(module: str, *, server: EmbeddedServer, folder: Path, overrides: Mapping[str, str]) -> subprocess.Popen[bytes]:
    """A worker of `module`; `overrides` are added to its environment."""
    home = folder / "home"
    initialise(home)
    ours = {"HOOKLAKE_HOME": str(home), "HOOKLAKE_LOG__URL": server.url, "HOOKLAKE_GROUPS__BENCH__OPS_PORT": "0"}
    environment = environment_with({**ours, "PYTHONPATH": str(ROOT), "PYTHONSAFEPATH": "1", **overrides})
    return start_process([sys.executable, "-m", "processors", "--group", GROUP, module], environment=environment, folder=folder, cwd=ROOT)


def unsettled(client: Any, *, streams: Sequence[str]) -> int:
    """How many entries of these streams the group has yet to settle."""
    pipeline: Any = client.pipeline(transaction=False)
    for stream in streams:
        pipeline.xinfo_groups(stream)
    found = [group for groups in pipeline.execute() for group in groups if group["name"] in (GROUP, GROUP.encode())]
    return sum(group["lag"] + group["pending"] for group in found)


def streams_of(priority: Priority) -> list[str]:
    log = LogSettings()
    keys = Keys(log.prefix, log.shards)
    return [keys.events(shard, priority.value) for shard in keys.all_shards()]


def a_client(server: EmbeddedServer, folder: Path) -> Any:
    return open_blocking(LogSettings(url=server.url, timeout_ms=60_000), home=folder)
