"""Owns running workers, real or broken, as processes over a log, and looking at what their processors did."""

from __future__ import annotations

import asyncio
import json
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import MappingProxyType
from typing import Any

from infra.running.initialise import initialise
from infra.settings import LogSettings
from infra.streams.stream import EventStream
from schemas.event import StreamEvent
from tests.infra.running.processes import command_environment
from tests.ports import free_port
from tests.processors.waiting import letters, unsettled

REAL = "processors"
CHILD = "processors.child"
# Notes each run, as one write that a kill cannot tear.
NOTING = """
import os
from processors import processor

HERE = os.path.dirname(__file__)

def note(event, delivery):
    with open(os.path.join(HERE, "runs"), "a") as runs:
        runs.write(f"{event.id} {delivery.attempt}\\n")

@processor("*")
async def act(event, delivery):
    note(event, delivery)
"""


class WorkerProcesses:
    """One home, one module of processors, and the workers of group `g` that run it."""

    def __init__(self, log: LogSettings, tmp_path: Path, *, code: str = NOTING) -> None:
        self.log, self.home, self.code = log, tmp_path / "home", tmp_path / "code"
        initialise(self.home)
        self.code.mkdir()
        (self.code / "fault_module.py").write_text(code)

    def append(self, events: Sequence[StreamEvent]) -> list[str]:
        """Returns their ids."""

        async def append() -> None:
            stream = EventStream.open(self.log, home=self.home)
            for event in events:
                await stream.append(event)
            await stream.close()

        asyncio.run(append())
        return [event.id for event in events]

    @contextmanager
    def worker(
        self,
        module: str = REAL,
        *,
        consumer: str = "w",
        failpoint: str = "",
        named: str = "fault_module",
        environment: Mapping[str, str] = MappingProxyType({}),
        **group: Any,
    ) -> Iterator[subprocess.Popen[bytes]]:
        """Killed at the end of the block, unless it has ended by then; `group` are settings of the group, `environment` has others."""
        of_log = {"LOG__URL": self.log.url, "LOG__PREFIX": self.log.prefix, "LOG__SHARDS": str(self.log.shards)}
        of_group = {f"GROUPS__G__{name.upper()}": str(value) for name, value in {"ops_port": free_port(), **group}.items()}
        environment = {**command_environment(self.home, **of_log, **of_group), **environment}
        if failpoint:
            environment["HOOKLAKE_FAILPOINT"] = failpoint
        command = [sys.executable, "-m", module, "--group", "g", *([named] if named else []), "--consumer", consumer]
        with self._output(consumer).open("ab") as output:
            process = subprocess.Popen(command, env=environment, cwd=self.code, stdout=output, stderr=output)
        try:
            yield process
        finally:
            process.kill()  # and the kernel kills its children
            process.wait()

    def die_at(self, failpoint: str, *, module: str = CHILD, **group: Any) -> None:
        """Returns when a child has died there: one by itself, which no parent starts again."""
        with self.worker(module, failpoint=failpoint, **group) as dying:
            assert dying.wait(timeout=120) == -signal.SIGKILL, self.said()

    def _output(self, consumer: str) -> Path:
        return self.code / f"{consumer}.log"

    def said(self, consumer: str = "w") -> str:
        return self._output(consumer).read_text(errors="replace")

    def children(self, consumer: str = "w") -> list[int]:
        """Process ids of all children that ever started, in order."""
        said = [json.loads(line) for line in self.said(consumer).splitlines() if line.startswith("{")]
        return [line["pid"] for line in said if line["event"] == "worker started"]

    @property
    def runs(self) -> list[tuple[str, int]]:
        """Event ids and attempts, in the order of their ends."""
        path = self.code / "runs"
        lines = path.read_text().splitlines() if path.exists() else []
        return [(event_id, int(attempt)) for event_id, attempt in (line.split() for line in lines)]

    @property
    def unsettled(self) -> int:
        return unsettled(self.log, self.home)

    @property
    def dead(self) -> list[str]:
        """Ids of events that became dead letters."""
        return [letter.event_id for letter in letters(self.log, self.home)]
