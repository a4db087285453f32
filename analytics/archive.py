"""Owns the archive of one table: drains its streams into it, one batch after the other, and forgets nothing in between.

A batch looks where the streams end, plans fixed ranges, reads them, appends the rows to the table in one commit, reads that
commit back, syncs it, and only then moves the group and trims the log. Whatever dies in between, the table knows how far it
has come: the next batch starts from the positions in its newest commit. Each table is such a chain of commits, and knows of no other.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from analytics import lives, owners, plan, watching
from analytics.caps import Failures
from analytics.commits import Commit, CommittedTable
from analytics.decoders import DECODERS
from analytics.feeds import FEEDS, Feed
from analytics.lives import Known, Met
from analytics.owing import owing
from analytics.plan import Range
from analytics.settings import ArchiveSettings
from analytics.source import RECHECK_NEEDED, read_ranges
from analytics.survey import Survey, oldest_date, survey
from analytics.synced import as_unavailable
from analytics.tables import EVENTS
from analytics.transforms import has_number
from infra.acknowledged import highest_acknowledged
from infra.clock import Clock
from infra.failpoints import reach
from infra.settings import LogSettings
from infra.streams.ranges import ArchiveLog, Look
from infra.streams.seen import SeenWindow
from infra.streams.settled import Settled
from infra.telemetry import Telemetry
from schemas.errors import TableUnavailable

DAY_MS = 24 * 3_600_000


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
    check_lease: Callable[[], None] = lambda: None
    """Raises NotTheArchive when somebody else fills the tables by now."""
    settled: list[Settled] = field(default_factory=list)
    """How far groups had settled the streams when this run last saw the log in order, if it has: newer than what the last commit says."""

    @property
    def feed(self) -> Feed:
        return FEEDS[self.table.table.name]

    def start(self) -> Commit:
        """What the table has; first puts the group there, in case the last run died between its commit and its move."""
        for version in self.table.set_aside:
            self.telemetry.log.error("a commit did not reach the disk, is set aside and will be made again", version=version)
        last = owners.known(self.spark, self.table, commit=self.table.newest_commit(run=uuid.uuid4().hex))
        self.log.look()  # Begins the shards, so that there is a group to move.
        self.log.make_good(groups=last.groups, owing=last.owing)
        move(self.log, last)
        return last

    def warm(self, last: Commit) -> Commit:
        """Commits the positions again, with no rows: the first batch then finds compiled code, and clean-up keeps the positions."""
        return self._append([], commit=replace(following(last), lives=last.lives), last=last)

    def _continued(self, last: Commit) -> Commit:
        """What to continue: `last`, unless somebody has restored the table meanwhile, which then lacks what came after."""
        if not self.table.is_restored():
            return last
        left = owners.known(self.spark, self.table, commit=replace(self.table.newest_commit(run=last.run), owners=None))
        self.telemetry.log.error("the table was restored, and what it lacks is read again", table=left.table, rows=left.totals.rows)
        return left

    def _opened(self, last: Commit, *, look: Look) -> tuple[Commit, Look]:
        """The commit after `last`, and where streams end by the log's own word and by what receivers here were told before it died."""
        now_ms = self.clock.now_ms()
        noted = highest_acknowledged(self.home, since_ms=now_ms - 1000 * self._window.ttl_s)
        told = lives.with_acknowledged(look, known=last.lives, highest=noted)
        commit = opened(last, look=told, now_ms=now_ms, window=self._window)
        if commit.accepted_before > last.accepted_before:
            # The log was set back. By its own word alone: what only receivers remember no group will be handed.
            settled = self.settled[0] if self.settled else last.settled
            groups = sorted({group for marks in settled.values() for group in marks})
            commit = replace(commit, groups=groups, owing=owing(look.ends, known=last.lives, settled=settled))
        return commit, told

    def run_batch(self, last: Commit, *, look: Look | None = None) -> Commit:
        """Archives what the log has beyond `last`, up to the cap; returns `last` itself when there is nothing.

        Looks by itself unless it is given a look.
        """
        reach("archive.before_plan")
        last = self._continued(last)
        look = (look or self.log.look()).of(self.feed.table.streams)
        if look.has_new_groups:
            move(self.log, last)  # They stand at the beginning, and would keep the log from being trimmed.
        commit, look = self._opened(last, look=look)
        watching.tell_lag(self.telemetry, ends=look.ends, archived=last.positions)
        planned = plan.plan(look.ends, archived=last.positions, open_streams=lives.open_streams(commit.lives))
        if not planned and commit.accepted_before == last.accepted_before:
            self._note_settled(look)
            return self.warm(last) if is_aged(last, now_ms=self.clock.now_ms()) else last
        ranges = planned if self.feed.is_surveyed else self._capped(planned)
        reach("archive.planned")
        watching.tell_wiped(self.telemetry, commit=commit, last=last)
        with self.failures.counted(), watching.batch(self.telemetry, log=self.log, ranges=ranges) as told:
            committed = self._archive(ranges, commit=commit, last=last)
            told(committed)
        self._note_settled(look)
        watching.tell_lag(self.telemetry, ends=look.ends, archived=committed.positions)
        self.log.forget(lives.expired(committed.lives, before_ms=self.clock.now_ms() - 1000 * self._window.ttl_s))
        return committed

    def _note_settled(self, look: Look) -> None:
        self.settled[:] = [look.settled]

    @property
    def _window(self) -> SeenWindow:
        return SeenWindow.parse(self.log_settings.window)

    def _archive(self, ranges: Sequence[Range], *, commit: Commit, last: Commit) -> Commit:
        if self.feed.is_surveyed:
            return self._archive_counted(ranges, commit=commit, last=last)
        if any(one.recheck for one in ranges) or self.clock.now_ms() < commit.recheck_until_ms:
            return self._recheck(self._surveyed(ranges, lives_before=commit.lives), commit=commit, last=last)
        try:
            return self._append(ranges, commit=commit, last=last)
        except TableUnavailable as error:
            if RECHECK_NEEDED not in str(error.__cause__):
                raise
            return self._recheck(self._surveyed(ranges, lives_before=commit.lives), commit=commit, last=last)

    def _append(self, ranges: Sequence[Range], *, commit: Commit, last: Commit) -> Commit:
        """The usual batch: nothing of it can be in the table yet, so it is appended blindly."""
        commit = taking_in(commit, [(one, None) for one in ranges], now_ms=self.clock.now_ms())
        commit = replace(commit, read=sum(one.entries for one in ranges))
        return self._commit(self._rows(ranges, commit=commit), commit=commit, last=last)

    def _archive_counted(self, ranges: Sequence[Range], *, commit: Commit, last: Commit) -> Commit:
        """The same where an entry may be many rows: it is looked through first, and so are its numbers."""
        surveys = self._surveyed(ranges, lives_before=commit.lives)
        if not all(one.is_all_new for one in surveys):
            return self._recheck(surveys, commit=commit, last=last)
        taken = taking_in(commit, [(one.range, one.met) for one in surveys], now_ms=self.clock.now_ms())
        taken = replace(taken, read=sum(one.rows for one in surveys))
        return self._commit(self._rows([one.range for one in surveys], commit=taken), commit=taken, last=last)

    def _recheck(self, surveys: Sequence[Survey], *, commit: Commit, last: Commit) -> Commit:
        """After a restart of the log: streams are read again from their beginning, and rows that the table has are left out."""
        taken = taking_in(commit, [(one.range, one.met) for one in surveys], now_ms=self.clock.now_ms())
        rows = self._rows(plan.rechecked([one.range for one in surveys]), commit=commit)
        rows = self.feed.without_archived(rows, archived=self._archived_since(surveys))
        met = sum(met.entries for one in surveys for met in one.met.values())
        if self.feed.is_surveyed:
            new, foreign = met, sum(one.foreign for one in surveys)
        else:
            new, foreign = self._counted(rows, lives_before=commit.lives)
        read = sum(one.rows for one in surveys)
        taken = replace(taken, rechecked=True, read=read, foreign=foreign, repeated=max(0, met - new))
        return self._commit(rows, commit=taken, last=last)

    def _surveyed(self, ranges: Sequence[Range], *, lives_before: Known) -> list[Survey]:
        caps, rows_in = self.failures.caps(self.settings), DECODERS[self.feed.table.name].rows_in
        return [survey(self.log, one, lives=lives_before.get(one.stream, {}), caps=caps, rows_in=rows_in) for one in ranges]

    def _commit(self, rows: DataFrame, *, commit: Commit, last: Commit) -> Commit:
        return commit_then_move(self.log, self.table, rows=rows, commit=commit, last=last, check_lease=self.check_lease)

    def _counted(self, rows: DataFrame, *, lives_before: Known) -> tuple[int, int]:
        """How many of the rows to be written have a number that is new, and how many have none. Reads the ranges once more."""
        new, numbered = has_number(lives_before, beyond_archived=True), has_number(lives_before, beyond_archived=False)
        with as_unavailable(self.table.location, cannot="be compared with what is new"):
            found = rows.agg(F.count_if(new), F.count_if(~numbered)).collect()[0]
        return found[0], found[1]

    def _rows(self, ranges: Sequence[Range], *, commit: Commit) -> DataFrame:
        tasks = self.spark.sparkContext.defaultParallelism
        pieces = zip(ranges, plan.pieces(ranges, tasks=tasks), strict=True)
        groups = plan.grouped([piece for one, count in pieces for piece in self._pieces(one, count=count)], tasks=tasks)
        raw = read_ranges(self.spark, table=self.feed.table.name, groups=groups, log=self.log_settings, home=self.home)
        return self.feed.to_rows(raw, batch=commit.batch, archived_at=self.clock.now())

    def _archived_since(self, surveys: Sequence[Survey]) -> DataFrame:
        # A sender repeats a delivery for as long as the window, so its first row may be that much older.
        window = timedelta(hours=int(self.log_settings.window.removesuffix("h")), days=1)
        return self.table.dataframe().where(F.col(self.feed.table.partitioned_by) >= F.lit(oldest_date(surveys) - window))

    def _capped(self, ranges: Sequence[Range]) -> list[Range]:
        caps = self.failures.caps(self.settings)
        shares = plan.shares(ranges, cap=caps.entries)
        average_bytes = [self.log.average_bytes(one.stream) for one in ranges]
        shares = plan.lightened(shares, average_bytes=average_bytes, cap_bytes=caps.bytes)
        return [self._cut(one, entries=share) for one, share in zip(ranges, shares, strict=True)]

    def _pieces(self, one: Range, *, count: int) -> Iterator[Range]:
        """The range as several, which follow each other."""
        for left in range(count, 1, -1):
            first = self._cut(one, entries=one.entries // left)
            if first.to == one.to:
                break
            yield first
            one = replace(one, after=first.to)
        yield one

    def _cut(self, one: Range, *, entries: int) -> Range:
        if one.recheck or one.entries <= entries:
            return one
        end = self.log.id_after(one.stream, after=one.after.entry_id, to=one.to.entry_id, entries=entries)
        if end == one.to.entry_id:
            return one
        found = self.log.position_at(one.stream, entry_id=end, incarnation=one.to.incarnation)
        # Entries that were trimmed beneath us may leave none with a number up to there.
        return replace(one, to=replace(found, sequence=max(found.sequence, one.after.sequence)), cut=True)


def is_aged(last: Commit, *, now_ms: int) -> bool:
    """Whether the positions are to be committed again although nothing is new: Delta forgets entries of its log after weeks. Pure."""
    return last.batch > 0 and now_ms - last.committed_at_ms > DAY_MS


def following(last: Commit) -> Commit:
    """The commit after `last`, with nothing in it yet. Pure."""
    return Commit(
        last.run,
        last.table,
        last.batch + 1,
        last.positions,
        accepted=last.accepted,
        accepted_before=last.accepted_before,
        recheck_until_ms=last.recheck_until_ms,
        owners=None if last.owners is None else last.owners_after,
        erased=last.erased,
        expired=last.expired,
        settled=last.settled,
        before=last.totals,
    )


def opened(last: Commit, *, look: Look, now_ms: int, window: SeenWindow) -> Commit:
    """The commit after `last`, with what the log says of its numbers now. Pure.

    A ledger that counts fewer events than it did was wiped, and `seen` with it: repeats may be appended again for one window.
    """
    gone = lives.uncounted(look, known=last.lives, accepted=last.accepted)
    return replace(
        following(last),
        lives=lives.seen(last.lives, ends=look.ends, forgotten_before_ms=now_ms - 1000 * window.ttl_s),
        accepted=look.accepted,
        accepted_before=last.accepted_before + gone,
        recheck_until_ms=now_ms + 1000 * window.ttl_s if gone else last.recheck_until_ms,
        settled=look.settled,
    )


def taking_in(commit: Commit, ranges: Sequence[tuple[Range, Mapping[str, Met] | None]], *, now_ms: int) -> Commit:
    """The commit once it has these ranges, with what was met in those that were looked through. Pure."""
    positions, numbers, lost = dict(commit.positions), dict(commit.lives), 0
    for one, met in ranges:
        positions[one.stream] = one.to
        numbers[one.stream], missing = lives.after(numbers.get(one.stream, {}), one=one, met=met, now_ms=now_ms)
        lost += missing
    return replace(commit, positions=positions, lives=numbers, lost=lost, cut=any(one.cut for one, _ in ranges))


def commit_then_move(
    log: ArchiveLog, table: CommittedTable, *, rows: DataFrame, commit: Commit, last: Commit, check_lease: Callable[[], None]
) -> Commit:
    """Returns what the table says it has; the group stands there too. Only for who holds the lease, asked before each of the two."""
    reach("archive.before_commit")
    check_lease()
    committed = owners.counted(rows.sparkSession, table, commit=table.append(rows, commit=commit))
    reach("archive.before_move")
    check_lease()
    log.make_good(groups=committed.groups, owing=committed.owing)
    # Move the group after the synced commit, to what was read back from it. A crash in between repeats the move, which is
    # harmless; the other order would lose rows.
    move(log, committed, since=last)
    reach("archive.before_trim")
    log.trim()
    reach("archive.after_trim")
    return committed


def move(log: ArchiveLog, commit: Commit, *, since: Commit | None = None) -> None:
    """Moves the group to a commit that is synced; a past incarnation only gets its mark, if it has changed."""
    for stream, mark in lives.changed(commit.lives, before=since.lives if since else {}):
        if mark.incarnation != commit.positions[stream].incarnation:
            log.move({stream: mark})
    log.move(commit.positions)
    log.note_totals(noted(commit))


def noted(commit: Commit) -> dict[str, int]:
    """What the ledger is told of a commit, for whoever balances the books. Pure."""
    totals = commit.totals
    if commit.table != EVENTS.name:
        return {f"rows:{commit.table}": totals.rows, f"missing:{commit.table}": totals.lost}
    return {
        "rows:events": totals.rows,
        "foreign:events": totals.foreign,
        "repeated:events": totals.repeated,
        "lost:archive": totals.lost,
        "before:accepted": commit.accepted_before,
        "erased:events": sum(commit.erased.values()),
        "expired:events": sum(commit.expired.values()),
        **{f"rows:events:{owner}": count for owner, count in commit.owners_after.items()},
        **{f"erased:events:{owner}": count for owner, count in commit.erased.items()},
        **{f"expired:events:{owner}": count for owner, count in commit.expired.items()},
    }
