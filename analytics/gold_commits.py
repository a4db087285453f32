"""Owns the commits of gold tables: each carries how far it has consumed the tables that it is made from, and is read back and synced.

What a commit counts and what it says it has consumed are one version of the table, so nothing is counted twice, wherever the process
dies. Every commit carries, as Delta's `userMetadata`, JSON with these names:

    hooklake_gold   version of this form, 1      run        which run made it
    table           the table's name             number     one more than the last
    since           when counting began, as an id; another one when the table was made anew, or an older state of it brought back
    consumed        up to which batch each table that it reads is counted: {table: batch}
    versions        the newest version of each that was seen: {table: version}
    counters        what the ledger said then of each source: {tenant:source: [duplicates, refusals]}
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import orjson
from pyspark.sql import DataFrame, DataFrameWriter

from analytics import torn
from analytics.delta_log import BY_TIME, LogEntry
from analytics.synced import SyncedTable
from infra.failpoints import reach
from schemas.errors import WriteSkipped

FORM = 1


@dataclass(frozen=True, slots=True)
class GoldCommit:
    """What a commit says about itself; the next one continues it."""

    run: str
    table: str
    number: int = 0
    consumed: Mapping[str, int] = field(default_factory=dict)
    counters: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    versions: Mapping[str, int] = field(default_factory=dict)
    since: str = ""


def to_metadata(commit: GoldCommit) -> str:
    facts = {name: getattr(commit, name) for name in ("run", "table", "number", "consumed", "counters", "versions", "since")}
    return orjson.dumps({"hooklake_gold": FORM, **facts}).decode()


def from_metadata(text: str) -> GoldCommit | None:
    """None for what is no commit of a refresh, such as a compaction."""
    try:
        found: dict[str, Any] = orjson.loads(text)
        if found.pop("hooklake_gold") != FORM:
            return None
        counters = {whose: (duplicates, refusals) for whose, (duplicates, refusals) in found.pop("counters").items()}
        return GoldCommit(**found, counters=counters)
    except (ValueError, TypeError, KeyError, AttributeError):
        return None


def following(last: GoldCommit) -> GoldCommit:
    """The commit after `last`, which has counted no further. Pure."""
    return replace(last, number=last.number + 1)


class GoldChain(SyncedTable):
    """One gold table and the commits that fill it."""

    def _set_aside_torn(self, table: Path) -> None:
        """A version that a power cut left in pieces is made again: what it counted is still in the tables that it was made from."""
        while (version := torn.newest_version(table)) is not None and torn.why_torn(table, version=version):
            torn.set_aside(table, version=version)
            self._log.forget_cache()

    def _is_ours(self, entry: LogEntry) -> bool:
        commit = from_metadata(entry.user_metadata)
        return commit is not None and commit.table == self.table.name

    def own_entry(self) -> LogEntry | None:
        """The newest of ours; where somebody has brought back an older version, the newest of that: its rows are what the table has.

        None where an older state was brought back by its time: which version that was, the log does not say.
        """
        return self._own_below(self._log.newest(at_least=self._version).version)

    def _own_below(self, version: int) -> LogEntry | None:
        for entry in self._log.downwards(start=version):
            if self._is_ours(entry):
                return entry
            if entry.restored_to is not None:
                return None if entry.restored_to == BY_TIME else self._own_below(entry.restored_to)
        return None

    def is_restored(self) -> bool:
        """Whether somebody has brought back an older state since our newest commit."""
        for entry in self._log.downwards(start=self._log.newest(at_least=self._version).version):
            if entry.restored_to is not None or self._is_ours(entry):
                return entry.restored_to is not None
        return False

    def newest_commit(self, *, run: str) -> GoldCommit:
        """What to continue; number 0 for a table that has nothing, or whose log says no more what it has: that one is made anew."""
        entry = self.own_entry()
        commit = from_metadata(entry.user_metadata) if entry is not None else None
        # Not since this run: it may have begun to count before, and Delta ignores a number that it has seen of who began then.
        # It remembers such numbers also when an older state was brought back, so that is another beginning.
        since = commit.since if commit is not None and not self.is_restored() else uuid.uuid4().hex
        return replace(commit or GoldCommit(run, self.table.name), run=run, since=since)

    def replace_rows(self, rows: DataFrame, *, where: str, commit: GoldCommit) -> GoldCommit:
        """Puts the rows in the place of those that `where` selects, or of all, in one commit that is then read back and synced.

        Raises WriteSkipped, TableUnavailable.
        """
        write = rows.write.mode("overwrite")
        return self._written(write.option("replaceWhere", where) if where else write, commit=commit)

    def repeat(self, last: GoldCommit) -> GoldCommit:
        """Says once more how far the table has counted, in a commit that leaves its rows as they are.

        Where no commit has said it there is nothing to repeat, and the rows go: the next refresh makes them anew.
        """
        nothing = self._spark.createDataFrame([], self.table.schema)
        if not last.number:
            return self.replace_rows(nothing, where="", commit=following(last))
        return self._written(nothing.write.mode("append"), commit=following(last))

    def _written(self, write: DataFrameWriter, *, commit: GoldCommit) -> GoldCommit:
        reach("gold.before_commit")
        told = write.format("delta").option("mergeSchema", "true").option("userMetadata", to_metadata(commit))
        # A second writer with the same number conflicts instead of counting twice.
        numbered = told.option("txnAppId", f"gold:{commit.table}:{commit.since}").option("txnVersion", commit.number)
        found = self._commit(lambda: numbered.save(self.location), read_back=partial(self._read_back, commit=commit), steps="gold")
        reach("gold.after_sync")
        return found

    def _read_back(self, entry: LogEntry, *, commit: GoldCommit) -> GoldCommit:
        # Delta skips a write whose txnVersion is not new, and reports success.
        found = from_metadata(entry.user_metadata)
        if found is None or (found.run, found.number) != (commit.run, commit.number):
            raise WriteSkipped(
                f"refresh {commit.number} is not the newest commit of {self.location} (version {entry.version} is): Delta ignored it, "
                "or someone else writes there; start the archive again to continue from what the table has"
            )
        return found
