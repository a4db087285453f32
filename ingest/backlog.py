"""Owns reading a spool back: its records in the order in which they were accepted, and deleting what is done with. Blocking."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass

from infra.segments import Damage, Record, Segment
from infra.spools import Folder, Place

EVERYTHING = Place(10**10, 0)
"""Above all segments: nobody writes to the folder."""


@dataclass(frozen=True, slots=True)
class Batch:
    """Some records of one segment, and what was found between them."""

    segment: Segment
    start: int
    end: int
    found: list[Record | Damage]

    @property
    def records(self) -> list[Record]:
        return [one for one in self.found if isinstance(one, Record)]

    @property
    def damages(self) -> list[Damage]:
        return [one for one in self.found if isinstance(one, Damage)]


class Backlog:
    """What a folder still has for the log, and how far it has been handed over."""

    def __init__(self, folder: Folder) -> None:
        self.folder = folder
        self._at = folder.position()

    def read(self, *, upto: Place, most_records: int, most_bytes: int) -> Batch | None:
        """The next records, none of them behind `upto`; None when there are no more. Deletes segments that are done with."""
        for segment in self.folder.segments():
            if segment.number > upto.number:
                break
            start = self._at.offset if segment.number == self._at.number else 0
            end = upto.offset if segment.number == upto.number else None
            is_done = segment.number < self._at.number
            if not is_done and (batch := _read(segment, start=start, end=end, most_records=most_records, most_bytes=most_bytes)):
                return batch
            if segment.number < upto.number:
                segment.path.unlink()
        return None

    def settle(self, batch: Batch) -> None:
        """Never before the log has answered for every record of it: what is noted here is not looked at again."""
        self._at = Place(batch.segment.number, batch.end)
        # Only saves repeating, so a full disk does not matter.
        with contextlib.suppress(OSError):
            self.folder.note_position(batch.segment, offset=batch.end)

    def size_bytes(self) -> int:
        """About what is still to be handed over."""
        return sum(one.path.stat().st_size for one in self.folder.segments() if one.number >= self._at.number) - self._at.offset

    def oldest_ms(self) -> int | None:
        """When what is handed over next was accepted; None when there is nothing."""
        batch = self.read(upto=EVERYTHING, most_records=1, most_bytes=1)
        return batch.records[0].written_ms if batch and batch.records else None


def _read(segment: Segment, *, start: int, end: int | None, most_records: int, most_bytes: int) -> Batch | None:
    found: list[Record | Damage] = []
    for one in segment.scan(start=start, end=end):
        found.append(one)
        if len(found) >= most_records or one.end - start >= most_bytes:
            break
    return Batch(segment, start, found[-1].end, found) if found else None
