"""Owns running hooklake as a user does: `hooklake up` on a home of its own, signed posts, queries, and kills."""

from __future__ import annotations

import hashlib
import hmac
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx

from infra.running.healthcheck import answers_ok
from infra.settings import LogSettings, environment_with
from infra.spools import read_spools
from infra.streams.overview import read_overview
from schemas.errors import StreamUnavailable
from tests.ports import free_port

ROOT = Path(__file__).parent.parent.parent
HOOKLAKE = Path(sys.executable).parent / "hooklake"


class Installation:
    """One home and the processes on it. Every wait has a deadline, and `stop` leaves nothing behind."""

    def __init__(self, home: Path, *, clone: Path | None = None, **settings: str) -> None:
        """`settings` such as TELEMETRY__TRACES override the file that `up` writes; `clone` is a checkout with a venv of its own."""
        self.root = clone or ROOT
        self.hooklake = clone / ".venv" / "bin" / "hooklake" if clone else HOOKLAKE
        self.home = home
        self.port = free_port()
        ports = {"INGEST__PORT": self.port, "INGEST__OPS_PORT": free_port(), "ARCHIVE__OPS_PORT": free_port()}
        ports |= {"GROUPS__EXAMPLE__OPS_PORT": free_port(), "ARCHIVE__CONNECT_PORT": 0}
        # Nobody here waits for the first batch more eagerly than for the end of the test.
        overrides = {f"HOOKLAKE_{name}": str(value) for name, value in {**ports, "ARCHIVE__WARM_UP": False, **settings}.items()}
        self.environment = environment_with({"HOOKLAKE_HOME": str(home), **overrides})
        self.output = home.parent / f"{home.name}.out"
        self.up: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Returns when the receiver answers."""
        with self.output.open("ab") as output:
            self.up = subprocess.Popen(
                [str(self.hooklake), "up"],
                env=self.environment,
                stdout=output,
                stderr=subprocess.STDOUT,
                stdin=subprocess.DEVNULL,
                cwd=self.root,
            )
        self.until(self.answers, "the receiver answers", within_s=60)

    def stop(self, how: signal.Signals = signal.SIGTERM) -> int:
        """Ends `up` as Ctrl-C or SIGTERM would; returns its exit code, and asserts that no process is left."""
        if self.up is None:
            return 0
        family = descendants(self.up.pid)
        self.up.send_signal(how)
        try:
            code = self.up.wait(timeout=180)
        finally:
            self.up.kill()
            self.up = None
        left = {pid: command for pid, command in family.items() if is_alive(pid)}
        for pid in left:
            os.kill(pid, signal.SIGKILL)
        assert left == {}, f"left behind: {left}"
        return code

    def post(self, body: bytes, *, delivery: str) -> dict[str, Any]:
        """What a 202 says."""
        answer = httpx.post(self.hook, content=body, headers=self.signed(body, delivery=delivery))
        assert answer.status_code == 202, answer.text
        said: dict[str, Any] = answer.json()
        return said

    def answers(self) -> bool:
        try:
            return httpx.get(f"http://127.0.0.1:{self.port}/readyz", timeout=2).status_code == 200
        except httpx.HTTPError:
            return False

    def until(self, condition: Callable[[], Any], what: str, *, within_s: float = 300) -> Any:
        deadline = time.monotonic() + within_s
        while not (value := condition()):
            is_over = time.monotonic() > deadline or (self.up is not None and self.up.poll() is not None)
            assert not is_over, f"not within {within_s} s: {what}; up said:\n{self.said()}"
            time.sleep(0.1)
        return value

    def said(self) -> str:
        return self.output.read_text(errors="replace")[-4000:]

    def run(self, *arguments: str, within_s: float = 120) -> subprocess.CompletedProcess[str]:
        command = [str(self.hooklake), *arguments]
        return subprocess.run(command, env=self.environment, capture_output=True, text=True, timeout=within_s, check=False, cwd=self.root)

    def query(self, sql: str) -> list[dict[str, Any]]:
        answered = self.run("query", sql, "--json")
        assert answered.returncode == 0, answered.stderr
        rows: list[dict[str, Any]] = json.loads(answered.stdout)
        return rows

    def status(self) -> dict[str, Any]:
        answered = self.run("status", "--json")
        assert answered.returncode in (0, 1), answered.stderr
        found: dict[str, Any] = json.loads(answered.stdout)
        return found

    def is_ready(self) -> bool:
        """True when every process says so on its ops port, which is what `hooklake status` asks too."""
        # Not by `hooklake status`: asked ten times a second, it would take a core from what is waited for.
        ports = [int(value) for name, value in self.environment.items() if re.fullmatch(r"HOOKLAKE_.*_OPS_PORT", name)]
        return all(answers_ok(port) for port in ports)

    def has_archived(self) -> bool:
        """True when everything that was accepted is in the table."""
        # Not by `hooklake status` either.
        try:
            found = read_overview(LogSettings(), home=self.home)
        except StreamUnavailable:
            return False
        is_spooled = any(spool.events for spool in read_spools(self.home))
        return found.accepted == found.archived_rows and found.above_archived == 0 and not is_spooled

    def log_of(self, service: str) -> str:
        path = self.home / "logs" / f"{service}.log"
        return path.read_text(errors="replace") if path.exists() else ""

    def pid_of(self, *words: str) -> int | None:
        """The process under `up` whose command line has all these words."""
        assert self.up is not None
        return next((pid for pid, command in descendants(self.up.pid).items() if all(re.search(word, command) for word in words)), None)

    def signed(self, body: bytes, *, delivery: str, event: str = "push") -> dict[str, str]:
        """The headers that GitHub sends; signed here by hand, not by the code under test."""
        secret = (self.home / "secrets" / "demo-github").read_bytes().strip()
        digest = hmac.new(secret, body, hashlib.sha256).hexdigest()
        return {
            "content-type": "application/json",
            "x-github-event": event,
            "x-github-delivery": delivery,
            "x-hub-signature-256": f"sha256={digest}",
        }

    @property
    def hook(self) -> str:
        return f"http://127.0.0.1:{self.port}/hooks/demo/github"


def descendants(pid: int) -> dict[int, str]:
    """The living processes below `pid`, with their command lines."""
    parents: dict[int, int] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if fields[0] != "Z":
            parents[int(stat.parent.name)] = int(fields[1])
    found: dict[int, str] = {}
    frontier = {pid}
    while frontier := {child for child, parent in parents.items() if parent in frontier}:
        for child in frontier:
            found[child] = command_line(child)
    return found


def command_line(pid: int) -> str:
    try:
        return (Path("/proc") / str(pid) / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
    except OSError:
        return ""


def is_alive(pid: int) -> bool:
    try:
        return (Path("/proc") / str(pid) / "stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False
