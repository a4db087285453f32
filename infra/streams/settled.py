"""Owns how far groups have settled each stream, and what they are owed when the log loses what they had not. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from infra.streams.owed import OwedRange, range_value
from infra.streams.positions import Position, StreamName

Settled = dict[StreamName, dict[str, Position]]
"""By stream and durable group, up to where it has settled everything; an entry that waits to be tried again counts as settled."""


@dataclass(frozen=True, slots=True)
class Owing:
    """Archived events that the log has no longer, and that a group had not settled."""

    shard: int
    group: str
    range: OwedRange

    @property
    def value(self) -> str:
        return range_value(self.range.after, self.range.first, self.range.last)


def read_settled(found: Iterable[tuple[int, Sequence[Sequence[bytes | int]]]]) -> Settled:
    """What `settled.lua` says of each shard."""
    settled: Settled = {}
    for shard, marks in found:
        for name, group, incarnation, entry_id, number in marks:
            at = Position(_text(incarnation), _text(entry_id), int(number))
            settled.setdefault(StreamName(shard, _text(name)), {})[_text(group)] = at
    return settled


def of_streams(settled: Mapping[StreamName, Mapping[str, Position]], streams: Iterable[StreamName]) -> Settled:
    return {stream: dict(settled[stream]) for stream in streams if stream in settled}


def _text(value: bytes | int) -> str:
    return value.decode() if isinstance(value, bytes) else str(value)
