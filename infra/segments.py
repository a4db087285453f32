"""Owns the form of a segment file: records one after the other, each of which is whole, or is known not to be.

    <number>-<salt>.spool     its records:
    salt 8 bytes · bytes of the payload u32 · events in it u32 · when it was written, ms u64 · CRC-32 of the payload u32 ·
    CRC-32 of everything before u32 · payload

The salt is random, one for each segment, and stands in its name: what a sender put into a body can never be taken for a record
when whole ones are looked for behind a damaged place.
"""

from __future__ import annotations

import os
import re
import struct
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

SALT_BYTES = 8
_HEAD = struct.Struct("<8sIIQI")
_CRC = struct.Struct("<I")
HEAD_BYTES = _HEAD.size + _CRC.size
_NAME = re.compile(r"(?P<number>[0-9]{10})-(?P<salt>[0-9a-f]{16})\.spool")


@dataclass(frozen=True, slots=True)
class Record:
    """A whole record, and where it stands."""

    offset: int
    end: int
    events: int
    written_ms: int
    payload: bytes


@dataclass(frozen=True, slots=True)
class Damage:
    """Bytes that are no record; `is_torn` when they are the beginning of one, at the end: a write that never returned."""

    offset: int
    end: int
    is_torn: bool


@dataclass(frozen=True, slots=True, order=True)
class Segment:
    """One file, by its name; later ones have higher numbers."""

    number: int
    salt: bytes
    path: Path

    @classmethod
    def new(cls, folder: Path, *, number: int) -> Segment:
        salt = os.urandom(SALT_BYTES)
        return cls(number, salt, folder / f"{number:010d}-{salt.hex()}.spool")

    @classmethod
    def of(cls, path: Path) -> Segment | None:
        """None for a file that is no segment."""
        found = _NAME.fullmatch(path.name)
        return found and cls(int(found["number"]), bytes.fromhex(found["salt"]), path)

    def frame(self, payload: bytes, *, events: int, at_ms: int) -> bytes:
        """The record that stands for the payload in this segment."""
        head = _HEAD.pack(self.salt, len(payload), events, at_ms, zlib.crc32(payload))
        return b"".join((head, _CRC.pack(zlib.crc32(head)), payload))

    def scan(self, *, start: int = 0, end: int | None = None) -> Iterator[Record | Damage]:
        """Everything between two places, in order: each byte belongs to exactly one of what is yielded."""
        with self.path.open("rb") as file:
            limit = os.fstat(file.fileno()).st_size if end is None else end
            offset = start
            while offset < limit:
                found = self._record_at(file, offset, limit=limit) or self._damage_at(file, offset, limit=limit)
                yield found
                offset = found.end

    def _record_at(self, file: BinaryIO, offset: int, *, limit: int) -> Record | None:
        file.seek(offset)
        parts = self._head(file.read(HEAD_BYTES))
        if parts is None or offset + HEAD_BYTES + parts[0] > limit:
            return None
        size, events, written_ms, crc = parts
        payload = file.read(size)
        return Record(offset, offset + HEAD_BYTES + size, events, written_ms, payload) if zlib.crc32(payload) == crc else None

    def _head(self, data: bytes) -> tuple[int, int, int, int] | None:
        if len(data) < HEAD_BYTES or not data.startswith(self.salt):
            return None
        if _CRC.unpack_from(data, _HEAD.size)[0] != zlib.crc32(data[: _HEAD.size]):
            return None
        _, size, events, written_ms, crc = _HEAD.unpack_from(data)
        return size, events, written_ms, crc

    def _damage_at(self, file: BinaryIO, offset: int, *, limit: int) -> Damage:
        file.seek(offset)
        rest = file.read(limit - offset)
        place = rest.find(self.salt, 1)
        while place > 0:
            if self._record_at(file, offset + place, limit=limit) is not None:
                return Damage(offset, offset + place, is_torn=False)
            place = rest.find(self.salt, place + 1)
        return Damage(offset, limit, is_torn=self._is_torn(rest))

    def _is_torn(self, rest: bytes) -> bool:
        """Whether these last bytes are what a cut write leaves: a record's first part, or a length without contents."""
        if not rest.strip(b"\0"):
            return True
        if len(rest) < HEAD_BYTES:
            return rest.startswith(self.salt[: len(rest)])
        parts = self._head(rest)
        return parts is not None and HEAD_BYTES + parts[0] > len(rest)
