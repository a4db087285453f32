"""Owns how these tests run our commands as real processes, and how they wait for what those do."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from infra.settings import environment_with
from tests.ports import free_port

ROOT = Path(__file__).parent.parent.parent.parent


def until(condition: Callable[[], bool], *, what: str, within_s: float = 30.0) -> None:
    """Waits for a condition; fails with `what` when it does not come true in time."""
    deadline = time.monotonic() + within_s
    while not condition():
        assert time.monotonic() < deadline, f"not within {within_s} s: {what}"
        time.sleep(0.02)


def is_alive(pid: int) -> bool:
    """False for a zombie too: it runs no code and holds no port."""
    try:
        state = (Path("/proc") / str(pid) / "stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state != "Z"


def end_recorded(pid: int, *, argument: str) -> None:
    """Kills one process that a test started and wrote down; not a stranger that got its number since."""
    with suppress(FileNotFoundError, ProcessLookupError):
        if argument in (Path("/proc") / str(pid) / "cmdline").read_bytes().decode(errors="replace"):
            os.kill(pid, signal.SIGKILL)


def command_environment(home: Path, **settings: str) -> dict[str, str]:
    """For a process of ours on `home`, with free ports; `settings` such as LOG__URL override its file."""
    ports = {"INGEST__PORT": free_port(), "INGEST__OPS_PORT": free_port(), "ARCHIVE__OPS_PORT": free_port()}
    ports |= {"GROUPS__EXAMPLE__OPS_PORT": free_port(), "ARCHIVE__CONNECT_PORT": 0}
    overrides = {f"HOOKLAKE_{name}": str(value) for name, value in {**ports, "ARCHIVE__WARM_UP": False, **settings}.items()}
    return environment_with({"HOOKLAKE_HOME": str(home), "PYTHONPATH": str(ROOT), "PYTHONSAFEPATH": "1", **overrides})


def run_module(module: str, *arguments: str, home: Path, **settings: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", module, *arguments]
    environment = command_environment(home, **settings)
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=90, check=False)
