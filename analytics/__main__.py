"""Owns the archive's process, `hooklake archive`: starts Spark, keeps the loop running, ends with the batch in hand."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from types import FrameType

import typer
from pyspark.sql import SparkSession

from analytics.archive import Archive
from analytics.caps import Failures
from analytics.commits import Commit, CommittedTable
from analytics.ownership import own, own_in_jvm
from analytics.session import archive_session, driver_process, stop_session
from analytics.settings import ArchiveSettings, is_address, table_location
from analytics.tables import EVENTS
from infra.clock import Clock
from infra.running.cli import EXIT_FAILED, run
from infra.running.housekeeper import Housekeeper
from infra.running.loops import keep_running_blocking
from infra.running.ops import OpsServer
from infra.settings import Settings, load_settings
from infra.streams.keys import ARCHIVE_GROUP
from infra.streams.probe import refuse_unfit_log
from infra.streams.ranges import ArchiveLog
from infra.telemetry import Telemetry

app = typer.Typer(add_completion=False)


@app.command()
def main() -> None:
    """Drains the log into Delta tables until it is told to stop."""
    # Until Spark runs there is no batch in hand, and waiting for Spark would only delay the end.
    _on_signals(lambda *_: sys.exit(0))
    settings = load_settings()
    with ExitStack() as stack:
        telemetry = Telemetry.start("archive", settings.telemetry, home=settings.home)
        stack.callback(telemetry.shutdown)
        telemetry.begin_group(ARCHIVE_GROUP)
        serve(settings, telemetry=telemetry, stack=stack)


def serve(settings: Settings, *, telemetry: Telemetry, stack: ExitStack) -> None:
    """Runs until a signal; whatever was opened on the way is closed by `stack`."""
    started, stop = time.monotonic(), threading.Event()
    section = settings.section("archive", ArchiveSettings)
    loop = Loop(telemetry, stop=stop, started=started)
    host = settings.telemetry.ops_host
    ops = OpsServer.bound(section.ops_port, host=host, telemetry=telemetry, is_ready=loop.is_ready, setting="archive.ops_port")
    stack.callback(ops.stop)
    ops.start()
    loop.archive = open_archive(settings, section=section, telemetry=telemetry, stack=stack)
    _on_signals(lambda *_: stop.set())
    stack.enter_context(Housekeeper(settings, telemetry=telemetry))
    watch_driver(loop.archive.spark, stop=stop, telemetry=telemetry)
    stack.callback(stop.set)  # First of all at the end, whatever ends it: the driver may then die in peace.
    keep_running_blocking(loop.step, name="archive", telemetry=telemetry, stop=stop, interval_ms=section.interval_ms)
    telemetry.log.info("archive stopped", batch=loop.last.batch if loop.last else 0)


def open_archive(settings: Settings, *, section: ArchiveSettings, telemetry: Telemetry, stack: ExitStack) -> Archive:
    """Takes the tables for this process, then starts Spark; raises ConfigError, NotTheArchive, SchemaDrift or Unavailable."""
    lake = None if is_address(section.path) else Path(table_location(section, home=settings.home, table="")).absolute()
    refuse_unfit_log(settings.log, home=settings.home)
    if lake is not None:
        stack.enter_context(own(lake))
    spark = archive_session(section, home=settings.home)
    stack.callback(stop_session, spark)
    if lake is not None:
        lock = own_in_jvm(spark, lake=lake)
        stack.callback(lambda: lock)  # Held, not released: it ends with the JVM.
    log = ArchiveLog.open(settings.log, home=settings.home)
    stack.callback(log.close)
    location = table_location(section, home=settings.home, table=EVENTS.name)
    table = CommittedTable(spark, table=EVENTS, location=location, is_past=log.is_past)
    return Archive(spark, log, table, section, settings.log, settings.home, Clock(), telemetry, Failures.remembered(home=settings.home))


@dataclass(slots=True)
class Loop:
    """What one round does, and how far the rounds have come."""

    telemetry: Telemetry
    stop: threading.Event
    started: float
    archive: Archive | None = None
    last: Commit | None = None

    def is_ready(self) -> bool:
        return self.last is not None

    def step(self) -> None:
        """Archives what there is; a backlog without rest, batch by batch."""
        assert self.archive is not None
        last = self.last or self._begin(self.archive)
        while not self.stop.is_set():
            self.last = self.archive.run_batch(last)
            if self.last is last or not self.last.cut:
                return
            last = self.last

    def _begin(self, archive: Archive) -> Commit:
        """Ready is who has been through a whole batch, be it empty."""
        last = archive.start()
        first = archive.run_batch(last)
        self.last = archive.warm(last) if first is last else first
        seconds = round(time.monotonic() - self.started, 1)
        self.telemetry.log.info("archive ready", seconds=seconds, batch=self.last.batch, rows=self.last.totals.rows)
        return self.last


def watch_driver(spark: SparkSession, *, stop: threading.Event, telemetry: Telemetry) -> None:
    """Ends this process when Spark's JVM is dead: nothing here can succeed any more, and a supervisor starts us anew."""
    process = driver_process(spark)

    def wait_for_its_end() -> None:
        code = process.wait()
        if not stop.is_set():
            telemetry.log.error("the driver's JVM is dead, so this process ends", exit_code=code)
            os._exit(EXIT_FAILED)  # The main thread may hang in a call that will never be answered.

    threading.Thread(target=wait_for_its_end, name="driver-watch", daemon=True).start()


def _on_signals(act: Callable[[int, FrameType | None], object]) -> None:
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, act)


if __name__ == "__main__":
    run(app, service="archive")
