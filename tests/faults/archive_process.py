"""Owns running an archive, real or broken, as a process against a log."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

from pyspark.sql import SparkSession

from analytics.archive import Archive
from analytics.caps import Failures
from analytics.commits import CommittedTable
from analytics.settings import ArchiveSettings, table_location
from analytics.tables import EVENTS
from infra.clock import Clock
from infra.running.initialise import initialise
from infra.settings import LogSettings, TelemetrySettings
from infra.streams.ranges import ArchiveLog
from infra.telemetry import Telemetry
from tests.infra.running.processes import command_environment

REAL = "analytics"


class ArchiveProcess:
    """One home whose archive is started and killed, and has a successor."""

    def __init__(self, home: Path, *, log_url: str) -> None:
        self.home = home
        self.log = LogSettings(url=log_url)
        initialise(home)

    def run_until_killed(self, module: str, *, failpoint: str) -> None:
        """Returns when the process has died at the failpoint."""
        process = self._start(module, failpoint=failpoint)
        try:
            assert process.wait(timeout=180) == -signal.SIGKILL, self.said()
        finally:
            process.kill()

    def drain(self, spark: SparkSession) -> None:
        """Lets the next archive take in all that there is: in this process, since it is not the one that dies."""
        settings, telemetry = ArchiveSettings(), Telemetry.start("archive", TelemetrySettings(), home=self.home)
        log = ArchiveLog.open(self.log, home=self.home)
        try:
            location = table_location(settings, home=self.home, table=EVENTS.name)
            table = CommittedTable(spark, table=EVENTS, location=location, is_past=log.is_past)
            failures = Failures.remembered(home=self.home)
            archive = Archive(spark, log, table, settings, self.log, self.home, Clock(), telemetry, failures)
            last = archive.start()
            while (committed := archive.run_batch(last)) is not last:
                last = committed
        finally:
            log.close()
            telemetry.shutdown()

    def _start(self, module: str, *, failpoint: str) -> subprocess.Popen[bytes]:
        environment = {**command_environment(self.home, LOG__URL=self.log.url), "HOOKLAKE_FAILPOINT": failpoint}
        with self._output.open("ab") as output:
            return subprocess.Popen([sys.executable, "-m", module], env=environment, stdout=output, stderr=output)

    @property
    def _output(self) -> Path:
        return self.home / "archive.out"

    def said(self) -> str:
        return self._output.read_text(errors="replace")[-3000:]
