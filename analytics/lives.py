"""Owns the numbers of every incarnation of every stream: how far they are archived, how far they went, and so what is lost. Pure.

Numbers are gapless within a stream's incarnation. So each one that the log was seen to have given, that has no row and is no
longer in the stream, is one lost event; when an incarnation is past and read to its end, what is left of its numbers is lost.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from analytics.plan import Range
from infra.streams.positions import START, Position, StreamName
from infra.streams.ranges import Look, StreamEnd


@dataclass(frozen=True, slots=True)
class Life:
    """One incarnation of one stream."""

    entry_id: str = START
    """The last entry of it that was archived."""
    archived: int = 0
    """Every number up to this one has a row, or is counted as lost."""
    given: int = 0
    """The highest number that the log was seen to have given."""
    ended_ms: int = 0
    """When it was past and read to its end; 0 before."""

    @property
    def open(self) -> int:
        """How many numbers are neither archived nor counted as lost."""
        return max(0, self.given - self.archived)


Lives = dict[str, Life]
LivesOfStreams = dict[StreamName, Lives]
Known = Mapping[StreamName, Mapping[str, Life]]


def seen(known: Known, *, ends: Iterable[StreamEnd], forgotten_before_ms: int) -> LivesOfStreams:
    """What was known, with what the log says now; without lives that the ledger was made to forget."""
    found = {stream: dict(lives) for stream, lives in known.items()}
    for end in ends:
        lives = found.setdefault(end.stream, {})
        for incarnation, number in end.given.items():
            life = lives.get(incarnation, Life())
            lives[incarnation] = replace(life, given=max(life.given, number))
        for incarnation in [name for name, life in lives.items() if name not in end.given and 0 < life.ended_ms < forgotten_before_ms]:
            del lives[incarnation]
    return {stream: lives for stream, lives in found.items() if lives}


def with_acknowledged(look: Look, *, known: Known, highest: Mapping[tuple[int, str, str], int]) -> Look:
    """The look, with numbers that receivers were given by past incarnations and that the log no longer knows of: its end was cut off.

    Only of incarnations that somebody has seen before: the notes of a log that was thrown away on purpose say nothing about this one.
    """
    return replace(look, ends=[_acknowledged(end, known=known.get(end.stream, {}), highest=highest) for end in look.ends])


def _acknowledged(end: StreamEnd, *, known: Mapping[str, Life], highest: Mapping[tuple[int, str, str], int]) -> StreamEnd:
    past = (set(end.given) | set(known)) - {end.incarnation}
    noted = {name: highest.get((end.stream.shard, end.stream.name, name), 0) for name in past}
    more = {name: number for name, number in noted.items() if number > end.given.get(name, 0)}
    return replace(end, given={**end.given, **more}) if more else end


def expired(known: Known, *, before_ms: int) -> list[tuple[StreamName, str]]:
    return [(stream, name) for stream, lives in known.items() for name, life in lives.items() if 0 < life.ended_ms < before_ms]


def uncounted(look: Look, *, known: Known, accepted: Mapping[int, int]) -> int:
    """How many events the ledger once counted as accepted and counts no more: it was wiped, or another server took over.

    What it counts now, less the numbers given since we last looked, should be what it counted then.
    """
    given_since = dict.fromkeys((end.stream.shard for end in look.ends), 0)
    for end in look.ends:
        lives = known.get(end.stream, {})
        given_since[end.stream.shard] += sum(max(0, number - lives.get(name, Life()).given) for name, number in end.given.items())
    return sum(max(0, then - (look.accepted.get(shard, 0) - given_since.get(shard, 0))) for shard, then in accepted.items())


@dataclass(frozen=True, slots=True)
class Met:
    """The entries of one incarnation that a range has beyond what was archived."""

    entries: int = 0
    last: Position | None = None


def after(lives: Mapping[str, Life], *, one: Range, met: Mapping[str, Met] | None = None, now_ms: int) -> tuple[Lives, int]:
    """The lives of a range's stream once it is archived, and how many events are then known to be lost.

    Without `met` the range has entries of the present incarnation only, and how many are missing is told by its rows.
    """
    found, lost = dict(lives), 0
    present = one.to.incarnation
    life = found.get(present, Life())
    found[present] = Life(one.to.entry_id, archived=one.to.sequence, given=max(life.given, one.to.sequence) if one.cut else one.to.sequence)
    if met is not None:
        lost += max(0, one.entries - met.get(present, Met()).entries)
    # Entries of a past incarnation stand before all those of the present one.
    is_past_read = not one.cut or one.to.sequence > 0
    for name, life in lives.items():
        if name != present:
            found[name], missing = _past(life, met=(met or {}).get(name, Met()), is_read=is_past_read, now_ms=now_ms)
            lost += missing
    return found, lost


def _past(life: Life, *, met: Met, is_read: bool, now_ms: int) -> tuple[Life, int]:
    number = met.last.sequence if met.last else life.archived
    entry_id = met.last.entry_id if met.last else life.entry_id
    if is_read:
        number = max(number, life.given)
    missing = max(0, number - life.archived - met.entries)
    return Life(entry_id, number, max(life.given, number), ended_ms=life.ended_ms or (now_ms if is_read else 0)), missing


def changed(lives: Known, *, before: Known) -> list[tuple[StreamName, Position]]:
    """The marks that have moved, as positions."""
    return [
        (stream, Position(name, life.entry_id, life.archived))
        for stream, of_stream in lives.items()
        for name, life in of_stream.items()
        if life != before.get(stream, {}).get(name)
    ]


def open_streams(lives: Known) -> Sequence[StreamName]:
    """Streams with numbers that are neither archived nor counted as lost."""
    return [stream for stream, of_stream in lives.items() if any(life.open for life in of_stream.values())]
