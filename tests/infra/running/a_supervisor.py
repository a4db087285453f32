"""Runs a supervisor as a process of its own: `python -m tests.infra.running.a_supervisor DIRECTORY NAME...`.

Each child appends its number to DIRECTORY/NAME.pids at every start, and starts a grandchild that does the same.
"""

from __future__ import annotations

import sys
import threading
from pathlib import Path

from infra.running.child import Child, RestartPolicy
from infra.running.supervisor import Supervisor
from infra.settings import environment_with

WAITS = """
import os, subprocess, sys, time
if len(sys.argv) == 2:
    subprocess.Popen([sys.executable, "-c", sys.orig_argv[2], sys.argv[1], "grandchild"])
with open(sys.argv[1], "a") as file:
    file.write(f"{os.getpid()}\\n")
time.sleep(600)
"""


def child(name: str, *, directory: Path, program: str = WAITS, stop_stage: int = 0, **options: object) -> Child:
    pids = directory / f"{name}.pids"
    values: dict[str, object] = {"is_ready": pids.exists, "grace_s": 5.0, **options}
    return Child(
        name=name,
        command=[sys.executable, "-c", program, str(pids)],
        environment=environment_with({}),
        stop_stage=stop_stage,
        **values,  # type: ignore[arg-type]
    )


def pids_of(directory: Path, name: str) -> list[int]:
    path = directory / f"{name}.pids"
    return [int(line) for line in path.read_text().splitlines()] if path.exists() else []


def main() -> None:
    directory = Path(sys.argv[1])
    children = [child(name, directory=directory) for name in sys.argv[2:]]
    Supervisor(children, directory / "logs", print, policy=RestartPolicy(first_s=0.1)).run(threading.Event())


if __name__ == "__main__":
    main()
