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
from functools import partial
from pathlib import Path
from types import FrameType

import typer
from pyspark.sql import SparkSession

from analytics.acts import Desk
from analytics.admission import taking_questions
from analytics.archive import Archive
from analytics.caps import Failures
from analytics.catalog import Lake
from analytics.chains import Chains
from analytics.commits import CommittedTable
from analytics.gold import Gold
from analytics.ownership import own, own_in_jvm
from analytics.refill import Refill
from analytics.requests import Requests
from analytics.session import archive_session, driver_process, stop_session
from analytics.settings import ArchiveSettings, is_address, table_location
from analytics.sharing import go_first
from analytics.tables import EVENTS, Table
from analytics.tending import Schedule
from analytics.warming import begin_warming
from infra.clock import Clock
from infra.running.cli import EXIT_FAILED, run
from infra.running.housekeeper import Housekeeper
from infra.running.loops import keep_running_blocking
from infra.running.ops import OpsServer
from infra.settings import Settings, load_settings
from infra.streams.archive_lease import ArchiveLease
from infra.streams.keys import ARCHIVE_GROUP
from infra.streams.owed import Owed
from infra.streams.probe import refuse_unfit_log
from infra.streams.ranges import ArchiveLog
from infra.telemetry import Telemetry
from schemas.errors import Unavailable

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
    loop = Loop(telemetry, stop=stop, started=started, interval_ms=section.interval_ms)
    host = settings.telemetry.ops_host
    ops = OpsServer.bound(section.ops_port, host=host, telemetry=telemetry, is_ready=loop.is_ready, setting="archive.ops_port")
    stack.callback(ops.stop)
    ops.start()
    spark = open_spark(settings, section=section, stack=stack)
    warmed = begin_warming(settings, section=section, spark=spark, telemetry=telemetry, stack=stack)
    loop.chains = open_chains(settings, section=section, spark=spark, telemetry=telemetry, stack=stack)
    stack.callback(loop.chains.close)
    events = loop.chains.events.open()
    gold = Gold(spark, events.log, section, settings.home, Clock(), telemetry, events.check_lease)
    loop.between = (Desk(Requests(settings.home), telemetry).serve, lambda _: gold.serve(), Schedule(section, home=settings.home).serve)
    if section.connect:
        opened = stack.enter_context(taking_questions(spark, lake=Lake(section, settings.home), telemetry=telemetry))
        telemetry.log.info("questions are taken", connect_port=opened.port)
    go_first(spark)
    warmed.result()
    _on_signals(lambda *_: stop.set())
    stack.enter_context(Housekeeper(settings, telemetry=telemetry))
    loop.refill = open_refill(settings, section=section, spark=spark, telemetry=telemetry, stack=stack)
    watch_driver(spark, stop=stop, telemetry=telemetry)
    stack.callback(stop.set)  # First of all at the end, whatever ends it: the driver may then die in peace.
    keep_running_blocking(loop.step, name="archive", telemetry=telemetry, stop=stop)
    telemetry.log.info("archive stopped", batch=loop.batch)


def open_spark(settings: Settings, *, section: ArchiveSettings, stack: ExitStack) -> SparkSession:
    """Takes the tables for this process, then starts Spark; raises ConfigError, NotTheArchive or Unavailable."""
    lake = None if is_address(section.path) else Path(table_location(section, home=settings.home, table="")).absolute()
    refuse_unfit_log(settings.log, home=settings.home)
    if lake is not None:
        stack.enter_context(own(lake))
    spark = archive_session(section, home=settings.home)
    stack.callback(stop_session, spark)
    if lake is not None:
        lock = own_in_jvm(spark, lake=lake)
        stack.callback(lambda: lock)  # Held, not released: it ends with the JVM.
    return spark


def open_chains(settings: Settings, *, section: ArchiveSettings, spark: SparkSession, telemetry: Telemetry, stack: ExitStack) -> Chains:
    """Takes the log's lease, and opens `events`, the others later; raises NotTheArchive, SchemaDrift, TornTable or Unavailable."""
    log = ArchiveLog.open(settings.log, home=settings.home)
    stack.callback(log.close)
    lease = stack.enter_context(ArchiveLease.open(settings.log, home=settings.home))

    def opens(table: Table) -> Archive:
        return open_archive(settings, section=section, table=table, spark=spark, log=log, lease=lease, telemetry=telemetry)

    chains = Chains(log, opens=opens, interval_ms=section.records_interval_ms, telemetry=telemetry)
    chains.events.open()
    return chains


def open_archive(
    settings: Settings,
    *,
    section: ArchiveSettings,
    table: Table,
    spark: SparkSession,
    log: ArchiveLog,
    lease: ArchiveLease,
    telemetry: Telemetry,
) -> Archive:
    location = table_location(section, home=settings.home, table=table.name)
    committed = CommittedTable(spark, table=table, location=location, is_past=partial(log.is_past, streams=table.streams))
    failures = Failures.remembered(home=settings.home, table="" if table is EVENTS else table.name)
    return Archive(spark, log, committed, section, settings.log, settings.home, Clock(), telemetry, failures, lease.check)


def open_refill(settings: Settings, *, section: ArchiveSettings, spark: SparkSession, telemetry: Telemetry, stack: ExitStack) -> Refill:
    owed = Owed.open(settings.log, home=settings.home)
    stack.callback(owed.close)
    location = table_location(section, home=settings.home, table=EVENTS.name)
    return Refill(lambda: spark.read.format("delta").load(location), owed, settings.log, settings.home, telemetry)


@dataclass(slots=True)
class Loop:
    """What one round does, and how far the rounds have come."""

    telemetry: Telemetry
    stop: threading.Event
    started: float
    interval_ms: int
    chains: Chains | None = None
    refill: Refill | None = None
    has_begun: bool = False
    between: tuple[Callable[[Chains], None], ...] = ()
    """What is done when everything is archived: requests, gold, and looking after the tables."""

    def is_ready(self) -> bool:
        return self.has_begun

    @property
    def batch(self) -> int:
        """The newest of `events`."""
        return self.chains.events.last.batch if self.chains and self.chains.events.last else 0

    def step(self) -> None:
        """Archives what there is, a backlog without rest, batch by batch; then does what else there is to do, and rests."""
        assert self.chains is not None
        began = time.monotonic()
        if not self.has_begun:
            self._begin(self.chains)
        has_more = True
        while has_more and not self.stop.is_set():
            has_more = self.chains.step()
            if has_more:
                self.chains.events.recall_ahead()
            if self.refill is not None:
                self.refill.step()
        self._do_between(self.chains)
        self.chains.events.recall_ahead()
        self.stop.wait(rest_s(self.interval_ms, took_s=time.monotonic() - began))

    def _do_between(self, chains: Chains) -> None:
        """All of it: what has to wait for better times keeps nothing else from being done. Raises its error."""
        reasons: list[Unavailable] = []
        for serve in self.between:
            try:
                if not self.stop.is_set():
                    serve(chains)
            except Unavailable as error:
                reasons.append(error)
        if reasons:
            raise reasons[0]

    def _begin(self, chains: Chains) -> None:
        """Ready is who has been through a whole batch, be it empty."""
        first = chains.begin()
        self.has_begun = True
        seconds = round(time.monotonic() - self.started, 1)
        self.telemetry.log.info("archive ready", seconds=seconds, batch=first.batch, rows=first.totals.rows)


def rest_s(interval_ms: int, *, took_s: float) -> float:
    """What is left of the interval. While a long round ran, enough has come to be worth a commit, so that only a breath is taken. Pure."""
    return max(interval_ms / 1000 - took_s, interval_ms / 4000)


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
