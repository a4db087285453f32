"""Owns what groups are owed when the log is set back: wiped, or replaced by a server that lacks its end. Pure.

Each commit says how far every durable group had settled the streams. When the log then counts fewer events than it did, what is archived
beyond that, and what the log has no longer, is what a group will never be handed by the log; the refill gives it back from the table.
Too much rather than too little: what a group settled between the last look and the wipe is handed to it again.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from analytics.lives import Known, Life
from infra.streams.owed import OwedRange
from infra.streams.positions import Position, StreamName, id_order
from infra.streams.ranges import StreamEnd
from infra.streams.settled import Owing, Settled


def owing(ends: list[StreamEnd], *, known: Known, settled: Settled) -> list[Owing]:
    """What groups are owed of incarnations that somebody knew, now that the streams end where they do."""
    return [
        one
        for end in ends
        for group, mark in settled.get(end.stream, {}).items()
        for one in _owed_to(group, mark=mark, end=end, lives=known.get(end.stream, {}))
    ]


def _owed_to(group: str, *, mark: Position, end: StreamEnd, lives: Mapping[str, Life]) -> Iterator[Owing]:
    for incarnation, life in lives.items():
        is_marked = incarnation == mark.incarnation
        if not is_marked and not _is_later(life, mark=mark):
            continue
        # What the log still numbers it still has, or has taken away itself.
        first = max(mark.sequence if is_marked else 0, end.given.get(incarnation, 0)) + 1
        if first <= life.archived:
            yield _owing(end.stream, group, incarnation, life=life, first=first, after=mark.entry_id)


def _is_later(life: Life, *, mark: Position) -> bool:
    return life.archived > 0 and id_order(life.entry_id) > id_order(mark.entry_id)


def _owing(stream: StreamName, group: str, incarnation: str, *, life: Life, first: int, after: str) -> Owing:
    return Owing(stream.shard, group, OwedRange(stream.name, incarnation, after, life.entry_id, first, life.archived))
