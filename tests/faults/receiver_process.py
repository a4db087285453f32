"""Owns running a receiver, real or broken, as a process over a log, and posting to it."""

from __future__ import annotations

import hashlib
import hmac
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx

from infra.running.healthcheck import answers_ok
from tests.infra.running.processes import command_environment, until

REAL = "ingest"
BODY = b'{"repository": {"full_name": "octo/hello"}}'


@dataclass(frozen=True, slots=True)
class ReceiverProcess:
    """A receiver that runs, and where."""

    process: subprocess.Popen[bytes]
    port: int
    ops_port: int

    @property
    def is_alive(self) -> bool:
        return self.process.poll() is None

    @property
    def children(self) -> list[int]:
        """The receivers proper, by process id."""
        task = Path("/proc") / str(self.process.pid) / "task" / str(self.process.pid) / "children"
        return [int(pid) for pid in task.read_text().split()]

    @property
    def resident_kb(self) -> list[int]:
        """What each of the receivers has in memory."""
        statuses = [(Path("/proc") / str(pid) / "status").read_text() for pid in self.children]
        return [int(status.split("VmRSS:")[1].split()[0]) for status in statuses]

    @property
    def memory_kb(self) -> int:
        """What they have together."""
        return sum(self.resident_kb)

    @property
    def threads(self) -> int:
        return sum(len(list((Path("/proc") / str(pid) / "task").iterdir())) for pid in self.children)

    @property
    def open_files(self) -> int:
        """Connections among them."""
        return sum(len(list((Path("/proc") / str(pid) / "fd").iterdir())) for pid in self.children)

    @property
    def hook(self) -> str:
        return f"http://127.0.0.1:{self.port}/hooks/demo/github"


@contextmanager
def receiver_process(module: str, *, home: Path, log_url: str, settings: dict[str, str], files: int = 0) -> Iterator[ReceiverProcess]:
    """Ready when it is handed out; with `files` it may open no more than so many."""
    environment = command_environment(home, **{"LOG__URL": log_url, "LOG__TIMEOUT_MS": "500", **settings})
    limited = ["prlimit", f"--nofile={files}:{files}"] if files else []
    command = [sys.executable, "-m", *(["tests.faults.receiver_of"] if module != REAL else []), module]
    process = subprocess.Popen([*limited, *command], env=environment, stderr=subprocess.DEVNULL)
    ports = (int(environment[f"HOOKLAKE_INGEST__{name}"]) for name in ("PORT", "OPS_PORT"))
    running = ReceiverProcess(process, *ports)
    try:
        until(lambda: running.is_alive and answers_ok(running.ops_port), what="the receiver is ready")
        yield running
    finally:
        process.kill()
        process.wait()


@contextmanager
def receiver(module: str, *, home: Path, log_url: str, **settings: str) -> Iterator[str]:
    with receiver_process(module, home=home, log_url=log_url, settings=settings) as running:
        yield running.hook


def post(hook: str, *, home: Path, delivery: str) -> httpx.Response:
    digest = hmac.new((home / "secrets" / "demo-github").read_bytes().strip(), BODY, hashlib.sha256).hexdigest()
    headers = {"x-github-event": "push", "x-github-delivery": delivery, "x-hub-signature-256": f"sha256={digest}"}
    return httpx.post(hook, content=BODY, headers={"content-type": "application/json", **headers}, timeout=30)
