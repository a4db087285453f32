"""Owns the anchor: the least that a correct consumer does, `XREADGROUP COUNT 100` and one XACK for all of them, again and again.

It decodes nothing, runs no function, renews no lease and checks no owner. `python -m tests.benchmarks.bare_loop URL EVENTS` is its process.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import redis

from infra.running.embedded import EmbeddedServer
from infra.settings import environment_with
from tests.benchmarks.filling import Filling
from tests.benchmarks.progress import VARIABLE, Progress
from tests.benchmarks.racing import start_process

ROOT = Path(__file__).parent.parent.parent
STREAM, GROUP = "bare", "g"
COUNT = 100


@dataclass(frozen=True, slots=True)
class BareLoop:
    events: int
    name: str = "bare-loop"

    def fill(self, server: EmbeddedServer, folder: Path) -> None:
        client: Any = redis.Redis.from_url(server.url, protocol=2)
        Filling(client, is_log=False).add([STREAM], count=self.events)
        client.xgroup_create(STREAM, GROUP, "0")
        client.close()

    def start(self, server: EmbeddedServer, folder: Path) -> subprocess.Popen[bytes]:
        environment = environment_with({VARIABLE: str(folder / "progress"), "PYTHONPATH": str(ROOT), "PYTHONSAFEPATH": "1"})
        command = [sys.executable, "-m", "tests.benchmarks.bare_loop", server.url, str(self.events)]
        return start_process(command, environment=environment, folder=folder, cwd=ROOT)

    def counter(self, server: EmbeddedServer, folder: Path) -> Callable[[], int]:
        return Progress(folder / "progress").read


def loop(url: str, *, events: int) -> None:
    # RESP2, which is the faster one with hiredis: the anchor shall be as good as it gets.
    client: Any = redis.Redis.from_url(url, protocol=2)
    progress, done = Progress.of_this_process(), 0
    while done < events:
        for _, entries in client.xreadgroup(GROUP, "c", {STREAM: ">"}, count=COUNT, block=1000) or []:
            client.xack(STREAM, GROUP, *[entry_id for entry_id, _ in entries])
            done += len(entries)
            progress.reached(done)


if __name__ == "__main__":
    loop(sys.argv[1], events=int(sys.argv[2]))
