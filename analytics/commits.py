"""Owns commits to the tables: what each carries about itself, the one function that makes them, and reading them back.

The table is the archive's only memory. Every commit carries, as Delta's `userMetadata`, JSON with these names:

    hooklake    version of this form, 2          run         which run of the archive made it
    table       the table's name                 batch       its number, one more than the last
    positions   up to where each stream is archived after this commit: {stream: {incarnation, entry_id, sequence}}
    lives       the numbers of every incarnation that is remembered: {stream: {incarnation: {entry_id, archived, given, ended_ms}}}
    accepted    how many events each shard's ledger had counted when this batch was planned: {shard: count}
    accepted_before   how many were counted by ledgers that are gone     recheck_until_ms   all rows are compared until then
    read        how many entries the batch had to read          lost    how many are known to be missing from the log
    rechecked   whether rows that were archived already were left out
    cut         whether the log had more than the batch could take
    foreign     how many of its rows are entries that the log gave no number
    repeated    how many accepted events have no row of their own, since the table has the same delivery with the same body
    owners      how many accepted events had a row before this commit: {tenant:source: count}
    erased, expired   how many accepted events were deleted from it until now, because somebody asked for it, and because they were past
                their retention: {tenant:source: count}
    settled     up to where each durable group had settled the streams: {stream: {group: {incarnation, entry_id, sequence}}}
    groups      the durable groups that a log which was set back before this commit had; owing: what they are owed since, as
                [{shard, group, range}]; both empty in all other commits
    before      totals of all earlier commits: {rows, duplicates, lost, foreign, repeated}
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import orjson
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from analytics import torn
from analytics.delta_log import BY_TIME, LogEntry
from analytics.lives import Life, LivesOfStreams
from analytics.session_settings import settings_of
from analytics.sharing import go_first
from analytics.synced import SyncedTable, as_unavailable
from analytics.tables import Table
from infra.streams.owed import OwedRange
from infra.streams.positions import Position, StreamName
from infra.streams.settled import Owing, Settled
from schemas.errors import TornTable, WriteSkipped

FORM = 2
RECHECKED_FOR_MS = 100 * 3_600_000
USER_METADATA = "spark.databricks.delta.commitInfo.userMetadata"
Positions = dict[StreamName, Position]


@dataclass(frozen=True, slots=True)
class Totals:
    """Sums over all commits of a table."""

    rows: int = 0
    duplicates: int = 0
    lost: int = 0
    foreign: int = 0
    repeated: int = 0


@dataclass(frozen=True, slots=True)
class Commit:
    """What a commit says about itself; the next one continues it."""

    run: str
    table: str
    batch: int
    positions: Positions
    lives: LivesOfStreams = field(default_factory=dict)
    accepted: dict[int, int] = field(default_factory=dict)
    accepted_before: int = 0
    recheck_until_ms: int = 0
    read: int = 0
    lost: int = 0
    foreign: int = 0
    repeated: int = 0
    rechecked: bool = False
    cut: bool = False
    owners: dict[str, int] | None = None
    """None where no commit has counted them yet."""
    erased: dict[str, int] = field(default_factory=dict)
    expired: dict[str, int] = field(default_factory=dict)
    settled: Settled = field(default_factory=dict)
    groups: list[str] = field(default_factory=list)
    owing: list[Owing] = field(default_factory=list)
    before: Totals = field(default_factory=Totals)
    rows: int = 0
    """Counted by Delta; known once it is committed."""
    committed_at_ms: int = 0
    """Known once it is committed."""
    here: dict[str, int] = field(default_factory=dict)
    """Those of its rows that were accepted, by tenant and source; counted in its files once it is committed."""

    @property
    def duplicates(self) -> int:
        return max(0, self.read - self.rows) if self.rechecked else 0

    @property
    def missing(self) -> int:
        """Entries that the log gave a number to and no longer had, the known and those that turned out missing."""
        return self.lost if self.rechecked else self.lost + max(0, self.read - self.rows)

    @property
    def totals(self) -> Totals:
        before = self.before
        return Totals(
            rows=before.rows + self.rows,
            duplicates=before.duplicates + self.duplicates,
            lost=before.lost + self.missing,
            foreign=before.foreign + self.foreign,
            repeated=before.repeated + self.repeated,
        )

    @property
    def owners_after(self) -> dict[str, int]:
        return dict(Counter(self.owners or {}) + Counter(self.here))


PLAIN = ("run", "table", "batch", "accepted_before", "recheck_until_ms", "read", "lost", "foreign", "repeated", "rechecked", "cut")


def to_metadata(commit: Commit) -> str:
    facts = {
        **{name: getattr(commit, name) for name in PLAIN},
        "positions": {str(stream): position for stream, position in commit.positions.items()},
        "lives": {str(stream): lives for stream, lives in commit.lives.items()},
        "accepted": {str(shard): count for shard, count in commit.accepted.items()},
        "owners": commit.owners,
        "erased": commit.erased,
        "expired": commit.expired,
        "settled": {str(stream): groups for stream, groups in commit.settled.items()},
        "groups": commit.groups,
        "owing": commit.owing,
        "before": commit.before,
    }
    return orjson.dumps({"hooklake": FORM, **facts}).decode()


def from_metadata(text: str, *, rows: int) -> Commit | None:
    """None for what is no commit of an archive, such as a compaction."""
    try:
        found: dict[str, Any] = orjson.loads(text)
        if found["hooklake"] != FORM:
            return None
        return Commit(
            **{name: found[name] for name in PLAIN},
            positions={StreamName.parse(stream): Position(**position) for stream, position in found["positions"].items()},
            lives={
                StreamName.parse(stream): {name: Life(**life) for name, life in lives.items()} for stream, lives in found["lives"].items()
            },
            accepted={int(shard): count for shard, count in found["accepted"].items()},
            owners=found.get("owners"),
            erased=found.get("erased", {}),
            expired=found.get("expired", {}),
            settled={
                StreamName.parse(stream): {group: Position(**position) for group, position in groups.items()}
                for stream, groups in found.get("settled", {}).items()
            },
            groups=found.get("groups", []),
            owing=[Owing(one["shard"], one["group"], OwedRange(**one["range"])) for one in found.get("owing", [])],
            before=Totals(**found["before"]),
            rows=rows,
        )
    except (ValueError, TypeError, KeyError):
        return None


def commit_in(entry: LogEntry) -> Commit | None:
    """What an entry of the table's log says, if an archive made it."""
    found = from_metadata(entry.user_metadata, rows=entry.rows)
    return replace(found, committed_at_ms=entry.committed_at_ms) if found else None


def write_rows(rows: DataFrame, *, commit: Commit, location: str) -> None:
    """Appends the rows in one version that carries the commit. Nobody has read it back or synced it yet."""
    write = rows.write.format("delta").mode("append").option("mergeSchema", "true").option("userMetadata", to_metadata(commit))
    # A second writer with the same number conflicts instead of duplicating.
    write.option("txnAppId", f"archive:{commit.table}").option("txnVersion", commit.batch).save(location)


class CommittedTable(SyncedTable):
    """A table and the chain of commits that fill it."""

    def __init__(self, spark: SparkSession, *, table: Table, location: str, is_past: Callable[[Positions], bool] = lambda _: False) -> None:
        """Creates the table when it is missing; raises TornTable, SchemaDrift or TableUnavailable.

        `is_past` tells whether the group stands beyond positions: then the version after them was synced once.
        """
        self.set_aside: list[str] = []
        """What did not reach the disk before a power cut, and where it lies now."""
        self._is_past = is_past
        super().__init__(spark, table=table, location=location)
        self._recalling: threading.Thread | None = None
        self._recalled = -1
        """The version for which Delta was last asked ahead."""
        self._looked_at = self._version
        """Up to which version somebody has looked for one that was restored: it may lie beneath a commit of ours."""

    def _set_aside_torn(self, table: Path) -> None:
        while (version := torn.newest_version(table)) is not None and (reason := torn.why_torn(table, version=version)):
            before = self._from_log(start=version - 1)
            if self._is_past(before.positions if before else {}):
                raise TornTable(
                    f"version {version} of {table} is damaged ({reason}), and the log may have its events no longer: restore the table's "
                    f"files, or move {version:020}.json away to go on without those events, which are then counted as lost"
                )
            self.set_aside.append(f"version {version} ({reason}): {torn.set_aside(table, version=version)}")
            self._log.forget_cache()

    def append(self, rows: DataFrame, *, commit: Commit) -> Commit:
        """Appends the rows in one commit; returns, synced, what the table says of it. Raises WriteSkipped, TableUnavailable."""
        write = partial(write_rows, rows, commit=commit, location=self.location)
        return self._commit(write, read_back=partial(self._read_back, commit=commit), steps="archive")

    def recall_ahead(self) -> None:
        """Lets Delta find out, beside whatever comes next, which batch numbers the newest version knows; once for each.

        Each append begins with that question, and Delta answers it by jobs over the table's log: half of what a small batch takes.
        """
        if self._recalled == self._version:
            return
        self.finish_recalling()
        self._recalled = self._version
        self._recalling = threading.Thread(target=self._recall, name="recall-ahead", daemon=True)
        self._recalling.start()

    def finish_recalling(self) -> None:
        """Returns when nothing of that goes on any more."""
        if self._recalling is not None:
            self._recalling.join()

    def _recall(self) -> None:
        with suppress(Exception):  # The append asks again, and has an error for whoever waits for it.
            go_first(self._spark)
            self._log.recall_transactions()

    def change(self, work: Callable[[], object], *, commit: Commit) -> Commit:
        """The same for work that changes rows in one commit, such as a delete; the chain goes on from there. It must change some."""
        with settings_of(self._spark, {USER_METADATA: to_metadata(commit)}):
            return self._commit(work, read_back=partial(self._read_back, commit=commit), steps="change")

    def _read_back(self, entry: LogEntry, *, commit: Commit) -> Commit:
        # Delta skips a write whose txnVersion is not new, and reports success.
        found = commit_in(entry)
        if found is None or (found.run, found.batch) != (commit.run, commit.batch):
            raise WriteSkipped(
                f"batch {commit.batch} is not the newest commit of {self.location} (version {entry.version} is): Delta ignored it, or "
                "someone else writes there, so the group does not move; start the archive again to continue from what the table has"
            )
        return found

    def _is_ours(self, entry: LogEntry) -> bool:
        commit = from_metadata(entry.user_metadata, rows=entry.rows)
        return commit is not None and commit.table == self.table.name

    def newest_commit(self, *, run: str) -> Commit:
        """What to continue, as a commit of this run's; an empty table has nothing archived. Raises TableUnavailable."""
        self._catch_up()
        found = self._from_log(start=self._version) or (self._from_rows() if self._has_foreign_rows() else None)
        return replace(found, run=run) if found else Commit(run, self.table.name, 0, {})

    def is_restored(self) -> bool:
        """Whether somebody has brought back an older version since the last look or append; `newest_commit` then says what is left."""
        with as_unavailable(self.location, cannot="be read"):
            entries = list(self._log.since(self._looked_at))
        self._version = self._looked_at = entries[-1].version if entries else self._looked_at
        return any(entry.restored_to is not None for entry in entries)

    def _from_log(self, *, start: int) -> Commit | None:
        # Nearly always the newest is ours; a compaction may lie on top of it.
        for entry in self._log.downwards(start=start):
            commit = commit_in(entry)
            if commit is not None and commit.table == self.table.name:
                return self._or_what_was_restored(commit, version=entry.version)
            if entry.restored_to is not None:
                return self._from_restored(entry)
        return None

    def _or_what_was_restored(self, commit: Commit, *, version: int) -> Commit:
        """The commit, unless the table was restored while it was made: then it says more than the table has.

        What is left then is what was restored and the rows of this one, with which all that is read again is compared.
        """
        for entry in self._log.downwards(start=version - 1):
            if self._is_ours(entry):
                return commit
            if entry.restored_to is not None:
                left = self._from_restored(entry)
                if left is None or left.totals.rows == commit.before.rows:
                    return commit
                until_ms = commit.committed_at_ms + RECHECKED_FOR_MS
                made = replace(left, batch=commit.batch, before=left.totals, rows=commit.rows, read=commit.rows, lost=0, owners=None)
                return replace(made, recheck_until_ms=max(until_ms, left.recheck_until_ms), committed_at_ms=commit.committed_at_ms)
        return commit

    def _from_restored(self, entry: LogEntry) -> Commit | None:
        """The positions of the version that was brought back, with the batch number of the newest: Delta would ignore a lower one."""
        before = self._from_log(start=entry.version - 1)
        left = (None if entry.restored_to == BY_TIME else self._from_log(start=entry.restored_to or 0)) or self._from_rows()
        batch = before.batch if before else 0
        return replace(left, batch=max(batch, left.batch)) if left else Commit("", self.table.name, batch, {})

    def _has_foreign_rows(self) -> bool:
        """False for a table that was just created, which need not be searched."""
        return self._version > 0 or bool(self._log.entry(0).data_files)

    def _from_rows(self) -> Commit | None:
        """The greatest positions that rows have, when the log of the table was cleaned up or rewritten."""
        rows = self.dataframe()
        number = F.transform(F.split("entry_id", "-"), lambda part: part.cast("decimal(20,0)"))
        newest = F.max(F.struct(number.alias("number"), "entry_id")).alias("newest")
        numbered = rows.where("incarnation IS NOT NULL AND sequence IS NOT NULL").groupBy("stream", "incarnation")
        found = numbered.agg(newest, F.max("sequence").alias("sequence")).orderBy("newest.number").collect()
        if not found:
            return None
        lives: LivesOfStreams = {}
        for row in found:
            life = Life(row.newest.entry_id, archived=row.sequence, given=row.sequence)
            lives.setdefault(StreamName.parse(row.stream), {})[row.incarnation] = life
        # The last of each is the newest.
        positions = {StreamName.parse(row.stream): Position(row.incarnation, row.newest.entry_id, row.sequence) for row in found}
        batch, count = rows.agg(F.max("batch"), F.count("*")).collect()[0]
        return Commit("", self.table.name, batch, positions, lives, rows=count)
