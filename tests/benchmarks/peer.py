"""Owns the peers as contenders: each in the venv of the peers, filled and run by its own means."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from infra.running.embedded import EmbeddedServer
from infra.settings import environment_with
from tests.benchmarks.peers import server as peer_server
from tests.benchmarks.progress import VARIABLE, Progress
from tests.benchmarks.racing import start_process, tail
from tests.benchmarks.rates import CannotMeasure

ROOT = Path(__file__).parent.parent.parent
MODULES = "tests.benchmarks.peers"
FILL_WITHIN_S = 600.0


@dataclass(frozen=True, slots=True)
class Peer:
    """Done is what its no-op function counted, which may be a moment before the peer acknowledges."""

    name: str
    module: str
    command: tuple[str, ...]
    events: int
    python: Path

    def fill(self, server: EmbeddedServer, folder: Path) -> None:
        command = [str(self.python), "-m", f"{MODULES}.enqueue", f"{MODULES}.{self.module}", str(self.events)]
        log = folder / "enqueue.log"
        with log.open("wb") as output:
            environment = self._environment(server, folder)
            done = subprocess.run(
                command, env=environment, cwd=ROOT, stdout=output, stderr=subprocess.STDOUT, timeout=FILL_WITHIN_S, check=False
            )
        if done.returncode != 0:
            raise CannotMeasure(f"{self.name}: its queue could not be filled: {tail(log)}")

    def start(self, server: EmbeddedServer, folder: Path) -> subprocess.Popen[bytes]:
        command = [str(self.python), "-m", *self.command]
        return start_process(command, environment=self._environment(server, folder), folder=folder, cwd=ROOT)

    def counter(self, server: EmbeddedServer, folder: Path) -> Callable[[], int]:
        return Progress(folder / "progress").read

    def _environment(self, server: EmbeddedServer, folder: Path) -> dict[str, str]:
        return environment_with({peer_server.VARIABLE: server.url, VARIABLE: str(folder / "progress"), "PYTHONPATH": str(ROOT)})


def all_peers(python: Path, *, scale: float) -> list[Peer]:
    """One worker process each; as many events as take it some seconds."""

    def peer(name: str, module: str, events: int, *command: str) -> Peer:
        return Peer(name, module, command, max(500, round(events * scale)), python)

    return [
        peer(
            "celery", "celery_noop", 4000,
            "celery", "-A", f"{MODULES}.celery_noop", "worker", "-P", "solo", "--loglevel=ERROR",
            "--without-gossip", "--without-mingle", "--without-heartbeat",
        ),
        peer("dramatiq", "dramatiq_noop", 8000, "dramatiq", f"{MODULES}.dramatiq_noop", "-p", "1", "-t", "8"),
        peer(
            "taskiq-redis", "taskiq_noop", 8000,
            "taskiq", "worker", f"{MODULES}.taskiq_noop:broker", "-w", "1", "--log-level", "ERROR", "--max-async-tasks", "500",
        ),
        peer("faststream", "faststream_noop", 8000, "faststream", "run", f"{MODULES}.faststream_noop:app", "--log-level", "error"),
        peer("arq", "arq_noop", 4000, "arq", f"{MODULES}.arq_noop.WorkerSettings"),
    ]  # fmt: skip
