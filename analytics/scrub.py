"""Owns looking whether the files of a table on a local disk are what was written: by the checksums that Hadoop keeps beside each.

Spark compares them too, but only of bytes that a query needs: a flipped byte may lie unnoticed for years. Here every file is read
that the newest version needs, and every entry and checkpoint of the table's log.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

MAGIC = b"crc\0"
_HEAD = struct.Struct(">4sI")


@dataclass(slots=True)
class Scrubbed:
    """What was found in one table."""

    files: int = 0
    damaged: list[str] = field(default_factory=list)
    """Files that are not what was written, or are missing."""
    unchecked: int = 0
    """Files without a checksum beside them."""


def scrub(table: Path, *, data_files: Iterable[Path]) -> Scrubbed:
    found = Scrubbed()
    for path in [*data_files, *_log_files(table)]:
        found.files += 1
        is_whole = has_its_checksum(path)
        if is_whole is None:
            found.unchecked += 1
        elif not is_whole:
            found.damaged.append(path.relative_to(table).as_posix())
    return found


def _log_files(table: Path) -> Iterator[Path]:
    """Entries and checkpoints; the hint at the newest checkpoint may be written anew at any moment."""
    for path in sorted((table / "_delta_log").iterdir()):
        if path.is_file() and not path.name.startswith((".", "_")):
            yield path


def has_its_checksum(path: Path) -> bool | None:
    """None when nothing says what it should be."""
    try:
        content = path.read_bytes()
        sums = path.with_name(f".{path.name}.crc").read_bytes()
    except FileNotFoundError:
        return None if path.exists() else False
    return fits(content, sums=sums)


def fits(content: bytes, *, sums: bytes) -> bool:
    """Whether these are the checksums of the content: a head, then a CRC-32 of each chunk. Pure."""
    if len(sums) < _HEAD.size:
        return False
    magic, chunk = _HEAD.unpack_from(sums)
    if magic != MAGIC or not chunk:
        return False
    view = memoryview(content)
    computed = b"".join(zlib.crc32(view[at : at + chunk]).to_bytes(4) for at in range(0, len(content), chunk))
    return computed == sums[_HEAD.size :]
