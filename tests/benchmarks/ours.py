"""Owns our worker as a contender: one `python -m processors` with the settings it is shipped with."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from infra.running.embedded import EmbeddedServer
from infra.running.initialise import initialise
from infra.settings import LogSettings, environment_with
from infra.streams.connection import open_blocking
from infra.streams.keys import Keys
from schemas.event import Priority
from tests.benchmarks.filling import add_entries
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
        client, streams = _client(server, folder), default_streams()
        try:
            self._fill_once(client, streams=streams)
            add_entries(client, streams=streams, count=self.events)
        finally:
            client.close()

    def _fill_once(self, client: Any, *, streams: list[str]) -> None:
        """A server that is measured again keeps what it had."""
        if client.exists(*streams):
            return
        add_entries(client, streams=streams, count=self.settled_before)
        for stream in streams:
            client.xgroup_create(stream, GROUP, "$", mkstream=True, entries_read=client.xlen(stream) if client.exists(stream) else 0)
        add_entries(client, streams=streams, count=self.pending_before)
        for stream in streams:
            client.xreadgroup(GROUP, SILENT, {stream: ">"}, count=self.pending_before or 1)

    def start(self, server: EmbeddedServer, folder: Path) -> subprocess.Popen[bytes]:
        home = folder / "home"
        initialise(home)
        overrides = {"HOOKLAKE_LOG__URL": server.url, "HOOKLAKE_GROUPS__BENCH__OPS_PORT": "0"}
        if self.pending_before:
            # The silent consumer's entries are there to lie in the way, not to be taken over in the middle of the measurement.
            overrides["HOOKLAKE_GROUPS__BENCH__LEASE_MS"] = str(24 * 3600 * 1000)
        environment = environment_with({"HOOKLAKE_HOME": str(home), "PYTHONPATH": str(ROOT), "PYTHONSAFEPATH": "1", **overrides})
        command = [sys.executable, "-m", "processors", "--group", GROUP, "tests.benchmarks.noop"]
        return start_process(command, environment=environment, folder=folder, cwd=ROOT)

    def counter(self, server: EmbeddedServer, folder: Path) -> Callable[[], int]:
        client, streams = _client(server, folder), default_streams()

        def settled() -> int:
            pipeline: Any = client.pipeline(transaction=False)
            for stream in streams:
                pipeline.xinfo_groups(stream)
            found = [group for groups in pipeline.execute() for group in groups if group["name"] in (GROUP, GROUP.encode())]
            unsettled: int = sum(group["lag"] + group["pending"] for group in found)
            return self.events + self.pending_before - unsettled

        return settled


def default_streams() -> list[str]:
    log = LogSettings()
    keys = Keys(log.prefix, log.shards)
    return [keys.events(shard, Priority.DEFAULT.value) for shard in keys.all_shards()]


def _client(server: EmbeddedServer, folder: Path) -> Any:
    return open_blocking(LogSettings(url=server.url, timeout_ms=60_000), home=folder)
