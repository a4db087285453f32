"""Owns deciding what a batch reads: from the streams' ends and the last positions to fixed ranges. Pure."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

import orjson

from infra.streams.positions import START, Position, StreamName, id_order
from infra.streams.ranges import StreamEnd


@dataclass(frozen=True, slots=True)
class Range:
    """The entries of one stream in (after, to]; reading it again gives the same ones."""

    stream: StreamName
    after: Position
    to: Position
    recheck: bool = False
    """Some of these may have rows already: compare with the table before appending."""
    cut: bool = False
    """The stream has more than this, which is left to the next batch."""

    @property
    def entries(self) -> int:
        """How many there must be, by their numbers; a range that is rechecked has those of past incarnations besides."""
        return self.to.sequence - self.after.sequence


def plan(ends: Sequence[StreamEnd], *, archived: Mapping[StreamName, Position], open_streams: Collection[StreamName] = ()) -> list[Range]:
    """What has been appended beyond the archived positions; a stream with nothing new and no open numbers has no range."""
    ranges = (plan_stream(end, archived=archived.get(end.stream), is_open=end.stream in open_streams) for end in ends)
    return [found for found in ranges if found is not None]


def plan_stream(end: StreamEnd, *, archived: Position | None, is_open: bool) -> Range | None:
    if archived is None or archived.incarnation != end.incarnation:
        # The log had another life: entry ids may have been given again, so the old position says nothing about this one.
        is_empty = end.last.entry_id == START and not is_open
        return None if is_empty else Range(end.stream, Position(end.incarnation, START, 0), end.last, recheck=archived is not None)
    if id_order(end.last.entry_id) > id_order(archived.entry_id):
        return Range(end.stream, archived, end.last)
    # The stream is gone, with entries that were not archived: there is nothing to read, but something to count.
    return Range(end.stream, archived, replace(archived, sequence=max(archived.sequence, end.last.sequence))) if is_open else None


def shares(ranges: Sequence[Range], *, cap: int) -> list[int]:
    """How many entries each range may have so that all together keep to about `cap`; short ones leave theirs to the others."""
    given: dict[int, int] = {}
    left = cap
    for done, index in enumerate(sorted(range(len(ranges)), key=lambda index: ranges[index].entries)):
        given[index] = min(ranges[index].entries, max(1, left // (len(ranges) - done)))
        left -= given[index]
    return [given[index] for index in range(len(ranges))]


def lightened(entries: Sequence[int], *, average_bytes: Sequence[int], cap_bytes: int) -> list[int]:
    """As many entries of each range as let all together keep to about `cap_bytes`; at least one of each. Pure."""
    weight = sum(count * each for count, each in zip(entries, average_bytes, strict=True))
    return [max(1, count * cap_bytes // weight) for count in entries] if weight > cap_bytes else list(entries)


def rechecked(ranges: Sequence[Range]) -> list[Range]:
    return [replace(one, recheck=True) for one in ranges]


# What is worth a task, and a file, of its own.
LEAST_ENTRIES = 5000


def pieces(ranges: Sequence[Range], *, tasks: int, least_entries: int = LEAST_ENTRIES) -> list[int]:
    """Into how many pieces each range is cut, so that all tasks have about as much to read; one that is rechecked stays whole."""
    share = max(least_entries, -(-sum(one.entries for one in ranges) // max(1, tasks)))
    return [1 if one.recheck else max(1, round(one.entries / share)) for one in ranges]


def grouped(ranges: Sequence[Range], *, tasks: int, least_entries: int = LEAST_ENTRIES) -> list[list[Range]]:
    """Ranges dealt out to at most `tasks` readers, none for fewer entries than are worth a task and a file of their own."""
    total = sum(one.entries for one in ranges)
    groups: list[list[Range]] = [[] for _ in range(max(1, min(tasks, total // least_entries, len(ranges))))]
    loads = [0] * len(groups)
    for one in sorted(ranges, key=lambda one: one.entries, reverse=True):
        lightest = loads.index(min(loads))
        groups[lightest].append(one)
        loads[lightest] += one.entries
    return groups


def to_json(groups: Sequence[Sequence[Range]]) -> str:
    """How ranges travel to the readers, which run in processes of their own."""
    return orjson.dumps(groups).decode()


def from_json(text: str) -> list[list[Range]]:
    return [[_range(one) for one in group] for group in orjson.loads(text)]


def _range(one: dict[str, dict[str, str]]) -> Range:
    stream, after, to = one["stream"], one["after"], one["to"]
    return Range(
        StreamName(int(stream["shard"]), stream["name"]),
        Position(after["incarnation"], after["entry_id"], int(after["sequence"])),
        Position(to["incarnation"], to["entry_id"], int(to["sequence"])),
        recheck=bool(one["recheck"]),
        cut=bool(one["cut"]),
    )
