"""Owns counting a range before it is rechecked: which incarnations its entries are of, and which numbers are missing.

Rows that are left out because the table has them cannot be counted afterwards, so these ranges are looked through first.
That is rare: after a restart of the log, or when an appender was not sure.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime

from analytics.caps import Caps
from analytics.plan import Range
from infra.streams.entries import Entry
from infra.streams.positions import Position, StreamName, id_order
from infra.streams.ranges import ArchiveLog


@dataclass(slots=True)
class Tally:
    """The entries of one incarnation."""

    entries: int = 0
    least: int = 0
    last: Position | None = None

    def add(self, position: Position) -> None:
        self.entries += 1
        self.least = min(self.least, position.sequence) if self.last else position.sequence
        self.last = position

    def missing(self, *, archived: int | None) -> int:
        """How many numbers are not there; `archived` is the last one that the table has, when that is known."""
        if self.last is None:
            return 0
        return max(0, self.last.sequence - (self.least - 1 if archived is None else archived) - self.entries)


@dataclass(slots=True)
class Survey:
    """What a range holds, as far as it will be read."""

    range: Range
    read: int = 0
    bytes: int = 0
    oldest_ms: int = 0
    tallies: dict[str, Tally] = field(default_factory=dict)

    def add(self, entry: Entry, *, archived: Position | None) -> None:
        """Counts one entry; of an incarnation that the table has a position in, only what lies beyond it."""
        incarnation, sequence = entry.fields.get(b"incarnation", b"").decode(errors="replace"), _number(entry.fields.get(b"sequence"))
        received_ms = min(id_order(entry.id)[0], _number(entry.fields.get(b"timestamp")) or id_order(entry.id)[0])
        self.oldest_ms = min(self.oldest_ms, received_ms) if self.read else received_ms
        self.read += 1
        self.bytes += entry.size_bytes
        if archived is None or archived.incarnation != incarnation or sequence > archived.sequence:
            self.tallies.setdefault(incarnation, Tally()).add(Position(incarnation, entry.id, sequence))

    def missing(self, *, archived: Position | None) -> int:
        known = {self.range.to.incarnation: self.range.after.sequence}
        if archived is not None:
            known[archived.incarnation] = archived.sequence
        return sum(tally.missing(archived=known.get(incarnation)) for incarnation, tally in self.tallies.items())

    def closed(self) -> list[tuple[StreamName, Position]]:
        """The last entries of past incarnations: their marks will not move again."""
        past = [tally.last for name, tally in self.tallies.items() if name and name != self.range.to.incarnation]
        return [(self.range.stream, last) for last in past if last is not None]


def survey(log: ArchiveLog, one: Range, *, archived: Position | None, caps: Caps) -> Survey:
    """Looks through a range, but not past the caps; then the survey's range ends there."""
    found = Survey(one)
    for entries in log.read(one.stream, after=one.after.entry_id, to=one.to.entry_id):
        for entry in entries:
            found.add(entry, archived=archived)
            if found.read >= caps.entries or found.bytes >= caps.bytes:
                found.range = _ending_at(one, entry=entry)
                return found
    return found


def _ending_at(one: Range, *, entry: Entry) -> Range:
    present = entry.fields.get(b"incarnation") == one.to.incarnation.encode()
    sequence = _number(entry.fields.get(b"sequence")) if present else one.after.sequence
    return replace(one, to=Position(one.to.incarnation, entry.id, sequence), cut=entry.id != one.to.entry_id)


def oldest_date(surveys: Iterable[Survey]) -> date:
    """The UTC date before which none of the entries was received."""
    return datetime.fromtimestamp(min((one.oldest_ms for one in surveys if one.read), default=0) / 1000, tz=UTC).date()


def _number(value: bytes | None) -> int:
    return int(value) if value is not None and value.isdigit() and len(value) <= 18 else 0
