"""Owns where receivers keep what the log could not take: the folders under `spool/` of a home, and what is in them.

spool/<receiver>/lock                       held by the process that writes or empties the folder
spool/<receiver>/<number>-<salt>.spool      segments, oldest first; see segments.py
spool/<receiver>/position                   how far the oldest one has been appended to the log; only saves repeating
spool/<receiver>/acknowledged               the highest numbers that the log gave it; see acknowledged.py
spool/<receiver>/damaged/...                bytes that were found damaged, kept for a person
"""

from __future__ import annotations

import contextlib
import fcntl
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import orjson

from infra.segments import Record, Segment

SPOOL = "spool"
LOCK = "lock"
POSITION = "position"
DAMAGED = "damaged"


@dataclass(frozen=True, slots=True, order=True)
class Place:
    """A place in a folder: everything before it has been appended to the log."""

    number: int = 0
    offset: int = 0


@dataclass(frozen=True, slots=True)
class Folder:
    """One receiver's spool on disk."""

    path: Path

    @property
    def receiver(self) -> str:
        return self.path.name

    def segments(self) -> list[Segment]:
        """Oldest first."""
        return sorted(found for path in self.path.glob("*.spool") if (found := Segment.of(path)) is not None)

    def position(self) -> Place:
        """Of a segment that is still there; the beginning of the oldest one when nothing is known that can be believed."""
        try:
            noted = orjson.loads((self.path / POSITION).read_bytes())
            place = Place(int(noted["number"]), int(noted["offset"]))
            return place if any(one.number == place.number and one.salt.hex() == noted["salt"] for one in self.segments()) else Place()
        except (OSError, ValueError, KeyError, TypeError):
            return Place()

    def note_position(self, segment: Segment, *, offset: int) -> None:
        """Not synced: an old one only means that some is appended again, and recognised."""
        beside = self.path / f"{POSITION}.new"
        beside.write_bytes(orjson.dumps({"number": segment.number, "salt": segment.salt.hex(), "offset": offset}))
        beside.replace(self.path / POSITION)

    def damaged(self) -> list[Path]:
        return sorted((self.path / DAMAGED).glob("*")) if (self.path / DAMAGED).is_dir() else []

    def keep_aside(self, segment: Segment, *, start: int, end: int) -> Path:
        """Copies bytes that are no events to where nobody deletes them, synced."""
        aside = self.path / DAMAGED / f"{segment.path.stem}-{start}"
        aside.parent.mkdir(mode=0o700, exist_ok=True)
        with segment.path.open("rb") as file, aside.open("wb") as kept:
            file.seek(start)
            kept.write(file.read(end - start))
            kept.flush()
            os.fsync(kept.fileno())
        for folder in (aside.parent, self.path):
            sync_folder(folder)
        return aside

    def hold(self) -> int | None:
        """The descriptor that holds the folder for this process until it is closed; None when somebody else has it."""
        descriptor = os.open(self.path / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(descriptor)
            return None
        return descriptor


@dataclass(frozen=True, slots=True)
class SpoolState:
    """What one receiver's spool holds at one moment."""

    receiver: str
    events: int
    size_bytes: int
    oldest_ms: int | None
    """When the oldest of them was accepted, ms since the epoch."""
    damaged: int
    """Places that were found damaged and are kept for a person."""
    is_held: bool
    """Whether a receiver lives that writes or empties it."""


def folders(home: Path) -> list[Folder]:
    try:
        return [Folder(path) for path in sorted((home / SPOOL).iterdir()) if path.is_dir()]
    except FileNotFoundError:
        return []


def read_spools(home: Path) -> list[SpoolState]:
    """All that there are; while they are emptied, what is gone in between is not counted."""
    return [read_spool(folder) for folder in folders(home)]


def read_spool(folder: Folder) -> SpoolState:
    waiting = list(waiting_records(folder))
    return SpoolState(
        receiver=folder.receiver,
        events=sum(record.events for record in waiting),
        size_bytes=sum(record.end - record.offset for record in waiting),
        oldest_ms=min((record.written_ms for record in waiting), default=None),
        damaged=len(folder.damaged()),
        is_held=_is_held(folder),
    )


def waiting_records(folder: Folder) -> Iterator[Record]:
    """What is not on the log yet, as far as is known."""
    done = folder.position()
    for segment in folder.segments():
        if segment.number >= done.number:
            # Whoever empties it deletes files meanwhile.
            with contextlib.suppress(FileNotFoundError):
                start = done.offset if segment.number == done.number else 0
                yield from (found for found in segment.scan(start=start) if isinstance(found, Record))


def _is_held(folder: Folder) -> bool:
    """A receiver that starts in this very moment may find the folder taken, and takes another one."""
    try:
        with (folder.path / LOCK).open("rb") as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except FileNotFoundError:
        return False
    return False


def sync_folder(path: Path) -> None:
    """Makes names in a folder last: that of a new file is not on the disk before."""
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
