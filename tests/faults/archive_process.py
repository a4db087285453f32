"""Owns running an archive, real or broken, as a process against a log."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

from infra.running.healthcheck import answers_ok
from infra.running.initialise import initialise
from tests.infra.running.processes import command_environment, until

REAL = "analytics"


class ArchiveProcess:
    """One home whose archive is started, killed and started again."""

    def __init__(self, home: Path, *, log_url: str) -> None:
        self.home = home
        self.settings = {"LOG__URL": log_url}
        initialise(home)

    def run_until_killed(self, module: str, *, failpoint: str) -> None:
        """Returns when the process has died at the failpoint."""
        process = self._start(module, failpoint=failpoint)
        try:
            assert process.wait(timeout=180) == -signal.SIGKILL, self.said()
        finally:
            process.kill()

    def run_until_idle(self, module: str = REAL) -> None:
        """Lets the archive take in all that there is, then stops it in order: ready is who has been through a whole batch."""
        process = self._start(module)
        try:
            port = int(self._environment["HOOKLAKE_ARCHIVE__OPS_PORT"])
            until(lambda: process.poll() is not None or answers_ok(port), what="the archive is ready", within_s=180)
            process.terminate()
            assert process.wait(timeout=60) == 0, self.said()
        finally:
            process.kill()

    def _start(self, module: str, *, failpoint: str = "") -> subprocess.Popen[bytes]:
        self._environment = command_environment(self.home, **self.settings)
        if failpoint:
            self._environment["HOOKLAKE_FAILPOINT"] = failpoint
        with self._output.open("ab") as output:
            return subprocess.Popen([sys.executable, "-m", module], env=self._environment, stdout=output, stderr=output)

    @property
    def _output(self) -> Path:
        return self.home / "archive.out"

    def said(self) -> str:
        return self._output.read_text(errors="replace")[-3000:]
