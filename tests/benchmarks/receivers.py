"""Owns the contenders that receive: ours in several settings, and what it is compared with. Each is one process, or a parent with some."""

from __future__ import annotations

import contextlib
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import yaml

from infra.running.embedded import EmbeddedServer
from infra.settings import environment_with
from tests.benchmarks.peers import server as peer_server
from tests.benchmarks.racing import end, start_process, tail
from tests.benchmarks.rates import CannotMeasure
from tests.ports import free_port

ROOT = Path(__file__).parent.parent.parent
SECRET = "a-secret-of-the-benchmark"
START_WITHIN_S = 60.0
NOBODY = "redis://127.0.0.1:1/0"
"""A log that is always down: everything goes to the spool."""


@dataclass(frozen=True, slots=True)
class Receiving:
    """A contender; `python` is another one's for the peers."""

    name: str
    command: tuple[str, ...]
    receivers: int = 1
    sources: int = 10
    has_log: bool = True
    python: Path = Path(sys.executable)

    @property
    def is_ours(self) -> bool:
        return self.command == ("ingest",)

    @property
    def fills_our_log(self) -> bool:
        """Whether each of its answers stands for an entry where ours would be."""
        return self.has_log and self.command in {("ingest",), ("tests.benchmarks.flat",)}

    @contextmanager
    def running(self, server: EmbeddedServer, folder: Path) -> Iterator[tuple[int, subprocess.Popen[bytes]]]:
        """Its port, as soon as it answers; raises CannotMeasure with the end of its output."""
        port, home = free_port(), folder / "home"
        if self.is_ours:
            write_settings(home, port=port, log_url=server.url if self.has_log else NOBODY, receivers=self.receivers, sources=self.sources)
        arguments = () if self.is_ours else (str(port), SECRET)
        environment = environment_with({"HOOKLAKE_HOME": str(home), peer_server.VARIABLE: server.url, "PYTHONPATH": str(ROOT)})
        command = [str(self.python), "-m", *self.command, *arguments]
        process = start_process(command, environment=environment, folder=folder, cwd=ROOT)
        try:
            _await_answer(port, process=process, name=self.name, folder=folder)
            yield port, process
        finally:
            end(process)


def all_receiving(peers_python: Path) -> list[Receiving]:
    """In the order of a repetition: each beside what it is compared with."""
    return [
        Receiving("starlette", ("tests.benchmarks.starlette_noop",)),
        Receiving("hooklake", ("ingest",)),
        Receiving("least-durable", ("tests.benchmarks.least_durable",)),
        Receiving("flat", ("tests.benchmarks.flat",)),
        Receiving("fastapi-celery", ("tests.benchmarks.peers.fastapi_celery",), python=peers_python),
        Receiving("two-receivers", ("ingest",), receivers=2),
        Receiving("many-sources", ("ingest",), sources=10_000),
        Receiving("spool", ("ingest",), has_log=False),
    ]


def write_settings(home: Path, *, port: int, log_url: str, receivers: int, sources: int) -> None:
    (home / "secrets").mkdir(parents=True)
    secret = home / "secrets" / "bench"
    secret.touch(mode=0o600)
    secret.write_text(SECRET)
    named = {f"source-{number}": {"scheme": "github", "secrets": ["file:secrets/bench"]} for number in range(sources)}
    content = {
        "log": {"url": log_url},
        "ingest": {"port": port, "ops_port": 0, "receivers": receivers},
        "tenants": {"bench": {"sources": named}},
    }
    (home / "hooklake.yaml").write_text(yaml.safe_dump(content))


def _await_answer(port: int, *, process: subprocess.Popen[bytes], name: str, folder: Path) -> None:
    """Any answer will do; our socket listens before anybody serves."""
    deadline = time.monotonic() + START_WITHIN_S
    while process.poll() is None and time.monotonic() < deadline:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=START_WITHIN_S) as connection:
            connection.sendall(b"GET /healthz HTTP/1.1\r\nHost: bench\r\nConnection: close\r\n\r\n")
            if connection.recv(12).startswith(b"HTTP/1.1"):
                return
        time.sleep(0.05)
    raise CannotMeasure(f"{name} does not answer on port {port}: {tail(folder / 'worker.log')}")
