"""Owns the archive's tables together: which is drained when, in one process, by one look at the log.

Events come first, in every round and to their end. What is recorded beside them may wait: a table of records is drained when its
entries have waited for `archive.records_interval_ms`, or when very many have gathered, and one such table in a round, so that events
never wait for more than one of its batches. A table of records that fails is tried again later and keeps no event waiting.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from analytics import watching
from analytics.archive import Archive
from analytics.commits import Commit
from analytics.tables import EVENTS, RECORDS, Table
from infra.streams.ranges import ArchiveLog, Look
from infra.telemetry import Telemetry
from schemas.errors import ArchiveError, NotTheArchive, Unavailable

# So many entries are worth a batch of their own, however short they have waited.
MANY = 5000
RETRY_S = 30.0
# Opening a table costs seconds of a Spark that has just started: one after the other, and not before the first events.
OPEN_EVERY_S = 15.0


@dataclass(slots=True)
class Chain:
    """One table's chain of commits; opened when it is first drained, which takes a moment."""

    table: Table
    opens: Callable[[Table], Archive]
    archive: Archive | None = None
    last: Commit | None = None
    due_at: float = 0.0
    failed: bool = False

    def open(self) -> Archive:
        """Raises TornTable, SchemaDrift or TableUnavailable."""
        if self.archive is None:
            self.archive = self.opens(self.table)
        return self.archive

    def step(self, *, look: Look) -> bool:
        """Archives one batch of what there is; says whether there is more."""
        archive = self.open()
        before = self.last = self.last or archive.start()
        self.last = None  # Should it fail: whether it was committed only the table knows.
        self.last = archive.run_batch(before, look=look)
        return self.last is not before and self.last.cut

    def recall_ahead(self) -> None:
        """What the next batch has to know, where there is a table yet."""
        if self.archive is not None:
            self.archive.table.recall_ahead()

    def waiting(self, look: Look) -> int:
        """How many entries it has not taken in, by their numbers; all of them before it is opened."""
        archived = self.last.positions if self.last else {}
        return sum(watching.lags(look.of(self.table.streams).ends, archived=archived).values())

    def is_due(self, *, look: Look, now: float) -> bool:
        """Looking whether there is anything costs nothing, so that need not be known here. Pure."""
        return now >= self.due_at or (not self.failed and self.waiting(look) >= MANY)


class Chains:
    """All tables of one archive. Raises Unavailable (go on later) or ArchiveError (stop), of records only NotTheArchive."""

    def __init__(self, log: ArchiveLog, *, opens: Callable[[Table], Archive], interval_ms: int, telemetry: Telemetry) -> None:
        self.events = Chain(EVENTS, opens)
        self.records = [Chain(table, opens) for table in RECORDS]
        self._log = log
        self._interval_s = interval_ms / 1000
        self._telemetry = telemetry

    def begin(self) -> Commit:
        """Takes `events` through a whole batch, be it empty; the others are opened later, one by one."""
        archive = self.events.open()
        last = archive.start()
        first = archive.run_batch(last)
        self.events.last = archive.warm(last) if first is last else first
        for place, chain in enumerate(self.records, start=1):
            chain.due_at = time.monotonic() + place * OPEN_EVERY_S
        return self.events.last

    def step(self) -> bool:
        """One batch of events, and one of records when some are due; says whether there is more to take in at once."""
        look = self._log.look()
        has_more = self.events.step(look=look)
        now = time.monotonic()
        due = [chain for chain in self.records if chain.is_due(look=look, now=now)]
        if due:
            has_more = self._step_records(min(due, key=lambda chain: chain.due_at), look=look) or has_more
        return has_more

    def drain(self) -> None:
        """Takes in all that there is now, of every table. Raises Unavailable and ArchiveError of any."""
        for chain in (self.events, *self.records):
            while chain.step(look=self._log.look()):
                pass

    def close(self) -> None:
        """Lets nothing go on that Spark would have to break off."""
        for chain in (self.events, *self.records):
            if chain.archive is not None:
                chain.archive.table.finish_recalling()

    def _step_records(self, chain: Chain, *, look: Look) -> bool:
        try:
            has_more = chain.step(look=look)
        except NotTheArchive:
            raise
        except (Unavailable, ArchiveError) as error:
            chain.due_at, chain.failed = time.monotonic() + RETRY_S, True
            self._telemetry.log.error("a table of records is not filled, and is tried again", table=chain.table.name, error=str(error))
            return False
        chain.due_at, chain.failed = time.monotonic() + (0 if has_more else self._interval_s), False
        return has_more
