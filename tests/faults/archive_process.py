"""Owns running an archive, real or broken, as a process against a log."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from pyspark.sql import SparkSession

from infra.failpoints import victim
from infra.running.initialise import initialise
from infra.settings import LogSettings
from infra.streams.stream import EventStream
from tests.events import an_event
from tests.faults.archive_world import ArchiveWorld
from tests.faults.checker import Accepted
from tests.infra.running.processes import command_environment

REAL = "analytics"
PATIENCE_S = 400  # at full size many JVMs start on few cores


class ArchiveProcess:
    """One home whose archive is started and killed, and has a successor."""

    def __init__(self, home: Path, *, log_url: str, preload: Path | None = None, **settings: str) -> None:
        """`settings` are those of the environment, such as ARCHIVE__MASTER; `preload` is a library between it and the kernel."""
        self.home = home
        self._preload = {"LD_PRELOAD": str(preload)} if preload else {}
        self.log = LogSettings(url=log_url)
        self._settings = settings
        self._started: list[subprocess.Popen[bytes]] = []
        initialise(home)

    def run_until_killed(self, module: str, *, failpoint: str) -> None:
        """Returns when the process has died at the failpoint, or, of its JVM's death, has ended by itself."""
        process = self.start(module, failpoint=failpoint)
        try:
            assert process.wait(timeout=PATIENCE_S) == (1 if "kill_jvm" in failpoint else -signal.SIGKILL), self.said()
        finally:
            process.kill()

    def drain(self, spark: SparkSession) -> None:
        """Lets the next archive take in all that there is: in this process, since it is not the one that dies."""
        world = ArchiveWorld(spark, self.log, self.home, shards=self.log.shards)
        try:
            world.drain()
        finally:
            world.close()

    def start(self, module: str, *, failpoint: str = "") -> subprocess.Popen[bytes]:
        environment = command_environment(self.home, LOG__URL=self.log.url, **self._settings)
        environment |= {"HOOKLAKE_FAILPOINT": failpoint, **self._preload}
        with self._output.open("ab") as output:
            self._started.append(subprocess.Popen([sys.executable, "-m", module], env=environment, stdout=output, stderr=output))
        return self._started[-1]

    def until(self, holds: Callable[[], bool], *, what: str) -> None:
        deadline = time.monotonic() + PATIENCE_S
        while not holds():
            assert time.monotonic() < deadline, f"it never came to this: {what}\n{self.said()}"
            time.sleep(0.1)

    def is_ready(self) -> bool:
        return "archive ready" in self.said()

    def jvm(self) -> int:
        return victim("kill_jvm", of=self._started[-1].pid)

    def end(self) -> None:
        """All that are left, and their JVMs, which end when nobody talks to them."""
        for process in self._started:
            if process.poll() is None:
                process.send_signal(signal.SIGTERM)
                try:
                    process.wait(30)
                except subprocess.TimeoutExpired:
                    os.kill(process.pid, signal.SIGKILL)
                    process.wait()

    @property
    def _output(self) -> Path:
        return self.home / "archive.out"

    def said(self) -> str:
        return self._output.read_text(errors="replace")[-20_000:] if self._output.exists() else ""


async def append_many(log: LogSettings, *, home: Path, count: int) -> list[Accepted]:
    stream = EventStream.open(log, home=home)
    events = [an_event() for _ in range(count)]
    receipts = await asyncio.gather(*[stream.append(event) for event in events])
    await stream.close()
    return [Accepted(receipt.event_id, event.delivery_id, event.body_sha256) for receipt, event in zip(receipts, events, strict=True)]
