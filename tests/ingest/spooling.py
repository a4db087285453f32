"""Owns the spools that tests look into: what is in them, and a log of one's own that can be taken away."""

from __future__ import annotations

from pathlib import Path

from infra.segments import Record
from infra.spools import folders
from infra.streams.packed import unpack
from schemas.event import StreamEvent


def spooled_events(home: Path) -> list[StreamEvent]:
    """Every event that is in a file of any spool, appended or not, in order."""
    found = [record for folder in folders(home) for segment in folder.segments() for record in segment.scan()]
    return [event for record in found if isinstance(record, Record) for event in unpack(record.payload)]


def segment_files(home: Path) -> list[Path]:
    return [segment.path for folder in folders(home) for segment in folder.segments()]
