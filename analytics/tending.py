"""Owns looking after the tables: rows past their retention, small files, files that no version needs, old log entries.

Everything here is done by the process that owns the tables, between two batches, one step after the other: on a schedule as many as
fit into a few seconds, and the rest after the next batch.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from delta.tables import DeltaTable
from pyspark.sql import SparkSession

from analytics import versions
from analytics.chains import Chains
from analytics.compaction import LARGEST_BYTES, SMALL_BYTES, DataFile, data_files, predicate_of, worth_rewriting
from analytics.delta_log import DeltaLog
from analytics.expiring import first_kept
from analytics.kept import Kept, kept
from analytics.requests import Request, Result, Tell
from analytics.session_settings import settings_of
from analytics.settings import ArchiveSettings, is_address
from analytics.synced import as_unavailable
from infra.failpoints import reach
from schemas.errors import ConfigError, TableUnavailable

# Longer than this a round on the schedule does not keep the next batch waiting, except by the step that it is in.
BUDGET_S = 5.0
VACUUM_EVERY_MS = 24 * 3_600_000
CHECKPOINT_AFTER = 10


@dataclass(slots=True)
class Report:
    """What was done to one table, or would be."""

    table: str
    files_before: int = 0
    files_after: int = 0
    bytes_before: int = 0
    bytes_after: int = 0
    expired: int = 0
    """Rows that were past their retention."""
    rewritten: list[str] = field(default_factory=list)
    """Partitions whose small files were put together."""
    removed_files: int = 0
    """Files of the directory that no version within reach needs."""
    removed_versions: int = 0
    """Log entries of versions that can no longer be asked for."""


@dataclass(slots=True)
class Tended:
    """One table, looked after; raises TableUnavailable."""

    table: Kept
    dry_run: bool = False

    @property
    def name(self) -> str:
        return self.table.name

    @property
    def spark(self) -> SparkSession:
        return self.table.spark

    @property
    def settings(self) -> ArchiveSettings:
        return self.table.settings

    @property
    def location(self) -> str:
        return self.table.location

    def steps(self, report: Report, *, by_hand: bool, vacuum: bool) -> Iterator[str]:
        """Does one thing after the other, and says before each what it will do."""
        files = self._files()
        before = first_kept(self.settings, table=self.name, now=datetime.now(UTC))
        if before is not None:
            yield f"{self.name}: removing rows from before {before}"
            with as_unavailable(self.location, cannot="be looked after"):
                report.expired = self.table.expire(before=before, dry_run=self.dry_run)
        report.files_before, report.bytes_before = len(files), sum(file.size_bytes for file in files)
        for partition in worth_rewriting(files, now_ms=_now_ms(), by_hand=by_hand):
            yield f"{self.name}: putting small files together {partition}"
            self._compact(partition)
            report.rewritten.append(partition)
        if vacuum:
            yield f"{self.name}: removing files that no version needs"
            report.removed_files = self._vacuum()
        if (report.rewritten or vacuum) and not self.dry_run:
            yield f"{self.name}: repeating how far it has come"
            # Both have made versions that do not say it. When the newest does, everything below its checkpoint can be removed.
            self.table.repeat()
        yield f"{self.name}: removing old log entries"
        report.removed_versions = self._forget_versions()
        files = self._files() if report.rewritten or report.expired else files
        report.files_after, report.bytes_after = len(files), sum(file.size_bytes for file in files)

    def _files(self) -> list[DataFile]:
        with as_unavailable(self.location, cannot="be looked after"):
            return data_files(self.spark, location=self.location)

    def _compact(self, partition: str) -> None:
        if self.dry_run:
            return
        with as_unavailable(self.location, cannot="be looked after"), settings_of(self.spark, COMPACTION):
            optimize = DeltaTable.forPath(self.spark, self.location).optimize()
            predicate = predicate_of(partition)
            self.table.check_lease()
            with DeltaLog(self.spark, location=self.location).synced():
                reach("upkeep.before_compaction")
                (optimize.where(predicate) if predicate else optimize).executeCompaction()
                reach("upkeep.before_sync")

    def _vacuum(self) -> int:
        """How many files went, or would; on an object store nobody counts them."""
        with as_unavailable(self.location, cannot="be looked after"):
            if self.dry_run:
                hours = self.settings.vacuum_after_hours
                with settings_of(self.spark, few_listings(self.spark)):
                    return self.spark.sql(f"VACUUM delta.`{self.location}` RETAIN {hours} HOURS DRY RUN").count()
            self.table.check_lease()
            before = _parquet_files(self.location)
            vacuum(self.spark, location=self.location, hours=self.settings.vacuum_after_hours)
            return before - _parquet_files(self.location)

    def _forget_versions(self) -> int:
        if is_address(self.location):
            return 0  # There Delta's own clean-up has to do: to list a log of any size is one call.
        since_ms = _now_ms() - self.settings.vacuum_after_hours * 3_600_000
        with as_unavailable(self.location, cannot="be looked after"):
            log, found = DeltaLog(self.spark, location=self.location), versions.read_history(Path(self.location))
            if not self.dry_run and found.newest - max(found.checkpoints, default=0) >= CHECKPOINT_AFTER:
                versions.write_checkpoint(self.spark, location=self.location)
                log.sync(log.newest())
                found = versions.read_history(Path(self.location))
            keep = versions.oldest_to_keep(found, versions=self.settings.history_versions, since_ms=since_ms, told_at=self.table.told_at())
            if self.dry_run:
                return sum(version < keep for version in found.made_ms)
            reach("upkeep.before_forgetting")
            removed = versions.remove_below(Path(self.location), version=keep)
            if removed:
                log.forget_cache()  # What Delta has in memory may be made of entries that are gone.
            return removed


def vacuum(spark: SparkSession, *, location: str, hours: int) -> None:
    """Removes files that no version of the last hours needs."""
    with settings_of(spark, few_listings(spark)), DeltaLog(spark, location=location).synced():
        DeltaTable.forPath(spark, location).vacuum(hours)


def few_listings(spark: SparkSession) -> dict[str, str]:
    """Spark would list a table's directories with 10,000 tasks, which take two minutes where there is nothing to list."""
    tasks = max(4, 2 * spark.sparkContext.defaultParallelism)
    return {"spark.sql.sources.parallelPartitionDiscovery.parallelism": str(tasks)}


COMPACTION = {
    "spark.databricks.delta.optimize.minFileSize": str(SMALL_BYTES),
    "spark.databricks.delta.optimize.maxFileSize": str(LARGEST_BYTES),
}


def act(chains: Chains, request: Request, tell: Tell) -> Result:
    """What `hooklake upkeep` asks for: everything at once, of all tables or of one."""
    wanted, dry_run = request.arguments.get("table"), bool(request.arguments.get("dry_run"))
    found = kept(chains)
    chosen = [table for table in found if wanted in (None, table.name)]
    if wanted is not None and not chosen:
        names = ", ".join(table.name for table in found)
        raise ConfigError(f"there is no table {wanted!r} to look after: there are {names or 'none yet'}")
    reports = []
    for number, table in enumerate(chosen):
        reports.append(report := Report(table.name))
        for doing in Tended(table, dry_run).steps(report, by_hand=True, vacuum=True):
            tell(doing, number, len(chosen))
    return {"dry_run": dry_run, "tables": [asdict(report) for report in reports]}


class Schedule:
    """Looks after all tables once in an interval, in short rounds."""

    def __init__(self, settings: ArchiveSettings, *, home: Path) -> None:
        self._interval_s = settings.upkeep_interval_ms / 1000
        self._vacuumed = home / "run" / "archive.vacuumed"
        self._due = time.monotonic() + self._interval_s
        self._round: Iterator[None] | None = None

    def serve(self, chains: Chains) -> None:
        """Does nothing before it is due, or for as long as it is turned off."""
        if not self._interval_s or time.monotonic() < self._due:
            return
        self._round = self._round or self._all(chains)
        began = time.monotonic()
        try:
            for _ in self._round:
                if time.monotonic() - began > BUDGET_S:
                    return
        except TableUnavailable:
            self._end_round()
            raise
        self._end_round()

    def _end_round(self) -> None:
        self._round, self._due = None, time.monotonic() + self._interval_s

    def _all(self, chains: Chains) -> Iterator[None]:
        vacuum = self._is_vacuum_due()
        for table in kept(chains):
            report = Report(table.name)
            for _ in Tended(table).steps(report, by_hand=False, vacuum=vacuum):
                yield
            if report.expired or report.rewritten or report.removed_files or report.removed_versions:
                chains.events.open().telemetry.log.info("table looked after", **asdict(report))
        if vacuum:
            self._vacuumed.touch()

    def _is_vacuum_due(self) -> bool:
        """Remembered by a file: an archive that is restarted every day must come to it, too."""
        return not self._vacuumed.exists() or time.time() * 1000 - self._vacuumed.stat().st_mtime * 1000 > VACUUM_EVERY_MS


def _parquet_files(location: str) -> int:
    return 0 if is_address(location) else sum(1 for _ in Path(location).rglob("*.parquet"))


def _now_ms() -> int:
    return int(time.time() * 1000)
