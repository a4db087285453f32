"""Owns counting a range before it is rechecked: which incarnations its entries are of, and which numbers are missing.

Rows that are left out because the table has them cannot be counted afterwards, so these ranges are looked through first: of events
that is rare, after a restart of the log, or when an appender was not sure. Entries that may be many rows are always counted so.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime

from analytics.caps import Caps
from analytics.decoders import RowsIn, one_row
from analytics.lives import Life, Met
from analytics.plan import Range
from analytics.raw_rows import LATEST_MS
from infra.streams.entries import Entry
from infra.streams.positions import Position, id_order
from infra.streams.ranges import ArchiveLog


@dataclass(slots=True)
class Survey:
    """What a range holds, as far as it will be read."""

    range: Range
    lives: Mapping[str, Life]
    rows_in: RowsIn = one_row
    read: int = 0
    rows: int = 0
    """What the entries that were read become."""
    bytes: int = 0
    foreign: int = 0
    """Entries to which the log gave no number."""
    oldest_ms: int = LATEST_MS
    met: dict[str, Met] = field(default_factory=dict)

    def add(self, entry: Entry) -> None:
        """Counts one entry; of numbers only those that are not archived yet."""
        appended_ms = id_order(entry.id)[0]
        self.oldest_ms = min(self.oldest_ms, appended_ms, _number(entry.fields.get(b"timestamp")) or appended_ms)
        self.read += 1
        self.rows += self.rows_in(entry)
        self.bytes += entry.size_bytes
        incarnation, number = entry.fields.get(b"incarnation", b"").decode(errors="replace"), _number(entry.fields.get(b"sequence"))
        life = self.lives.get(incarnation, Life())
        if not 0 < number <= life.given:
            self.foreign += 1
        elif number > life.archived:
            entries = self.met.get(incarnation, Met()).entries + 1
            self.met[incarnation] = Met(entries, Position(incarnation, entry.id, number))

    @property
    def is_all_new(self) -> bool:
        """Whether every entry is of the present incarnation and has a number beyond the archived ones."""
        return not self.range.recheck and self.read == self.met.get(self.range.to.incarnation, Met()).entries

    def cut_at(self, entry: Entry) -> None:
        """Ends the range at this entry; its number is the last one of the present incarnation up to there."""
        if entry.id != self.range.to.entry_id:
            present = self.range.to.incarnation
            last = self.met.get(present, Met()).last or self.range.after
            self.range = replace(self.range, to=Position(present, entry.id, last.sequence), cut=True)


def survey(log: ArchiveLog, one: Range, *, lives: Mapping[str, Life], caps: Caps, rows_in: RowsIn = one_row) -> Survey:
    """Looks through a range, but not past the caps; then the survey's range ends there."""
    found = Survey(one, lives, rows_in)
    for entries in log.read(one.stream, after=one.after.entry_id, to=one.to.entry_id):
        for entry in entries:
            found.add(entry)
            if found.read >= caps.entries or found.bytes >= caps.bytes:
                found.cut_at(entry)
                return found
    return found


def oldest_date(surveys: Iterable[Survey]) -> date:
    """The UTC date before which none of the entries was received."""
    return datetime.fromtimestamp(min((one.oldest_ms for one in surveys), default=0) / 1000, tz=UTC).date()


def _number(value: bytes | None) -> int:
    return int(value) if value is not None and value.isdigit() and len(value) <= 18 else 0
