"""Owns the archive: drains the log into `events`, one batch after the other, and forgets nothing in between.

A batch looks where the streams end, plans fixed ranges, reads them, appends the rows to the table in one commit, reads that
commit back, syncs it, and only then moves the group and trims the log. Whatever dies in between, the table knows how far it
has come: the next batch starts from the positions in its newest commit.
"""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from analytics import plan, watching
from analytics.caps import Failures
from analytics.commits import Commit, CommittedTable
from analytics.plan import Range
from analytics.settings import ArchiveSettings
from analytics.source import RECHECK_NEEDED, read_ranges
from analytics.survey import Survey, oldest_date, survey
from analytics.transforms import to_events, without_archived
from infra.clock import Clock
from infra.failpoints import reach
from infra.settings import LogSettings
from infra.streams.ranges import ArchiveLog
from infra.telemetry import Telemetry
from schemas.errors import TableUnavailable


@dataclass(frozen=True, slots=True)
class Archive:
    """One run of the archive, over one log and one table. Raises Unavailable (go on later) or ArchiveError (stop)."""

    spark: SparkSession
    log: ArchiveLog
    table: CommittedTable
    settings: ArchiveSettings
    log_settings: LogSettings
    home: Path
    clock: Clock
    telemetry: Telemetry
    failures: Failures

    def start(self) -> Commit:
        """What the table has; first puts the group there, in case the last run died between its commit and its move."""
        for version in self.table.set_aside:
            self.telemetry.log.error(
                "a commit did not reach the disk and was set aside; its events are read from the log again", was=version
            )
        last = self.table.newest_commit(run=uuid.uuid4().hex)
        self.log.ends()  # Begins the shards, so that there is a group to move.
        move(self.log, last)
        return last

    def warm(self, last: Commit) -> Commit:
        """Commits the positions again, with no rows: the first batch then finds compiled code, and clean-up keeps the positions."""
        return self._append([], last=last)

    def run_batch(self, last: Commit) -> Commit:
        """Archives what the log has beyond `last`, up to the cap; returns `last` itself when there is nothing."""
        reach("archive.before_plan")
        ends = self.log.ends()
        watching.tell_lag(self.telemetry, ends=ends, archived=last.positions)
        planned = plan.plan(ends, archived=last.positions)
        if not planned:
            return last
        ranges = self._capped(planned)
        reach("archive.planned")
        with self.failures.counted(), watching.batch(self.telemetry, log=self.log, ranges=ranges) as told:
            committed = self._archive(ranges, last=last)
            told(committed)
        watching.tell_lag(self.telemetry, ends=ends, archived=committed.positions)
        return committed

    def _archive(self, ranges: Sequence[Range], *, last: Commit) -> Commit:
        try:
            return self._recheck(ranges, last=last) if any(one.recheck for one in ranges) else self._append(ranges, last=last)
        except TableUnavailable as error:
            if RECHECK_NEEDED not in str(error.__cause__):
                raise
            return self._recheck(plan.rechecked(ranges), last=last)

    def _append(self, ranges: Sequence[Range], *, last: Commit) -> Commit:
        """The usual batch: nothing of it can be in the table yet, so it is appended blindly."""
        commit = replace(following(last, ranges), read=sum(one.entries for one in ranges))
        return commit_then_move(self.log, self.table, rows=self._rows(ranges, commit=commit), commit=commit)

    def _recheck(self, ranges: Sequence[Range], *, last: Commit) -> Commit:
        """After a restart of the log: streams are read again from their beginning, and rows that the table has are left out."""
        caps = self.failures.caps(self.settings)
        surveys = [survey(self.log, one, archived=last.positions.get(one.stream), caps=caps) for one in ranges]
        ranges = [one.range for one in surveys]
        commit = replace(
            following(last, ranges),
            rechecked=True,
            read=sum(one.read for one in surveys),
            lost=sum(one.missing(archived=last.positions.get(one.range.stream)) for one in surveys),
            closed=tuple(mark for one in surveys for mark in one.closed()),
        )
        rows = without_archived(self._rows(ranges, commit=commit), archived=self._archived_since(surveys))
        return commit_then_move(self.log, self.table, rows=rows, commit=commit)

    def _rows(self, ranges: Sequence[Range], *, commit: Commit) -> DataFrame:
        groups = plan.grouped(ranges, tasks=self.spark.sparkContext.defaultParallelism)
        raw = read_ranges(self.spark, groups=groups, log=self.log_settings, home=self.home)
        return to_events(raw, batch=commit.batch, archived_at=self.clock.now())

    def _archived_since(self, surveys: Sequence[Survey]) -> DataFrame:
        # A sender repeats a delivery for as long as the window, so its first row may be that much older.
        window = timedelta(hours=int(self.log_settings.window.removesuffix("h")), days=1)
        return self.table.dataframe().where(F.col("received_date") >= F.lit(oldest_date(surveys) - window))

    def _capped(self, ranges: Sequence[Range]) -> list[Range]:
        caps = self.failures.caps(self.settings)
        shares = plan.shares(ranges, cap=caps.entries)
        average_bytes = [self.log.average_bytes(one.stream) for one in ranges]
        shares = plan.lightened(shares, average_bytes=average_bytes, cap_bytes=caps.bytes)
        return [self._cut(one, entries=share) for one, share in zip(ranges, shares, strict=True)]

    def _cut(self, one: Range, *, entries: int) -> Range:
        if one.recheck or one.entries <= entries:
            return one
        end = self.log.id_after(one.stream, after=one.after.entry_id, to=one.to.entry_id, entries=entries)
        return replace(one, to=self.log.position_at(one.stream, entry_id=end, incarnation=one.to.incarnation), cut=True)


def following(last: Commit, ranges: Sequence[Range]) -> Commit:
    """The commit after `last` that takes in these ranges. Pure."""
    positions = {**last.positions, **{one.stream: one.to for one in ranges}}
    return Commit(last.run, last.table, last.batch + 1, positions, cut=any(one.cut for one in ranges), before=last.totals)


def commit_then_move(log: ArchiveLog, table: CommittedTable, *, rows: DataFrame, commit: Commit) -> Commit:
    """Returns what the table says it has; the group stands there too."""
    reach("archive.before_commit")
    committed = table.append(rows, commit=commit)
    reach("archive.before_move")
    # Move the group after the synced commit, to what was read back from it. A crash in between repeats the move, which is
    # harmless; the other order would lose rows.
    move(log, committed)
    reach("archive.before_trim")
    log.trim()
    reach("archive.after_trim")
    return committed


def move(log: ArchiveLog, commit: Commit) -> None:
    """Moves the group to a commit that is synced; a past incarnation only gets its last mark."""
    for stream, position in commit.closed:
        log.move({stream: position})
    log.move(commit.positions)
    log.note_totals(rows=commit.totals.rows, lost=commit.totals.lost)
