"""Owns how what a group is owed is given back from the table: which of it next, and each step of that. Pure.

What is owed stands in the log as ranges of numbers and as single entries that were in work. A step is one event, and what is left of its
range after it. Numbers without a row were erased, which is no loss; all others are lost to the group, or were the same delivery once more,
and are named so.
"""

from __future__ import annotations

from bisect import bisect
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import NamedTuple

from infra.streams.keys import EVENT_STREAMS
from infra.streams.owed import ErasedNumbers, OwedEntry, OwedItem, OwedRange, Step, range_value
from infra.streams.positions import id_order
from infra.streams.scripts import Argument

Erased = Callable[[], ErasedNumbers]
"""Asked only when a number has no row: there may be very many."""


class Archived(NamedTuple):
    """A row as the entry that it was."""

    stream: str
    entry_id: str
    incarnation: str
    number: int
    """0 for an entry to which the log gave none."""
    fields: Sequence[Argument]

    @property
    def order(self) -> tuple[int, tuple[int, int]]:
        return EVENT_STREAMS.index(self.stream), id_order(self.entry_id)


@dataclass(frozen=True, slots=True)
class Portion:
    """What is given back next of one item: all of it, or a range's numbers up to one."""

    item: OwedItem
    upto: int

    @property
    def order(self) -> tuple[int, tuple[int, int]]:
        return EVENT_STREAMS.index(self.item.stream), self.item.ends

    @property
    def is_whole(self) -> bool:
        return not isinstance(self.item, OwedRange) or self.upto == self.item.last


def portions(items: Sequence[OwedItem], *, room: int) -> list[Portion]:
    """The first of the items, in their order, that have about so many events."""
    found: list[Portion] = []
    for item in items:
        if room <= 0:
            break
        if isinstance(item, OwedRange):
            found.append(Portion(item, min(item.last, item.first + room - 1) if item.first else 0))
            room -= max(1, min(room, item.events))
        else:
            found.append(Portion(item, item.number))
            room -= 1
    return found


def retry_count_of(delivery_count: int) -> int:
    """An entry in work goes on with the attempt it was in, which was nobody's fault; see `attempt_number` of the processors."""
    return max(0, delivery_count - 2)


def pieces(first: int, last: int, *, erased: Sequence[tuple[int, int]]) -> Iterator[tuple[int, bool]]:
    """The numbers from first to last in pieces that were erased, or were not: where each ends, and which it is.

    The erased ranges are in their order and apart, so that of very many only those are looked at that matter.
    """
    for low, high in islice(erased, max(0, bisect(erased, (first + 1,)) - 1), None):
        if low > last:
            break
        if high < first:
            continue
        if low > first:
            yield low - 1, False
        yield min(high, last), True
        first = high + 1
    if first <= last:
        yield last, False


def steps(chosen: Sequence[Portion], rows: Iterable[Archived], *, erased: Erased = dict) -> Iterator[Step]:
    """The steps that give the portions back; `rows` are those that the table has of them, in the same order."""
    left = deque(_giver(portion, erased=erased) for portion in chosen)
    for row in rows:
        while left and left[0].portion.order < row.order:
            yield from left.popleft().close()
        if left:
            yield from left[0].take(row)
    for giver in left:
        yield from giver.close()


def _giver(portion: Portion, *, erased: Erased) -> _RangeGiver | _EntryGiver:
    if isinstance(portion.item, OwedRange):
        return _RangeGiver(portion, item=portion.item, erased=erased)
    return _EntryGiver(portion, item=portion.item, erased=erased)


class _EntryGiver:
    """Gives one entry back that was in work."""

    def __init__(self, portion: Portion, *, item: OwedEntry, erased: Erased) -> None:
        self.portion = portion
        self._item = item
        self._erased = erased
        self._is_given = False

    def take(self, row: Archived) -> Iterator[Step]:
        item = self._item
        if self._is_given or (row.stream, row.entry_id) != (item.stream, item.entry_id) or item.incarnation not in ("", row.incarnation):
            return
        self._is_given = True
        count = retry_count_of(item.delivery_count)
        fields = [*row.fields, "retry_count", count] if count else row.fields
        yield Step(item.field, item.value, "", 1, origin=row.entry_id, fields=fields)

    def close(self) -> Iterator[Step]:
        if not self._is_given:
            item = self._item
            ranges = self._erased().get((item.stream, item.incarnation), ())
            is_erased = any(low <= item.number <= high for low, high in ranges)
            yield Step(item.field, item.value, "", 1, missing="" if is_erased else f"events:{item.stream}|{item.entry_id}=1")


class _RangeGiver:
    """Gives a range back from its beginning on."""

    def __init__(self, portion: Portion, *, item: OwedRange, erased: Erased) -> None:
        self.portion = portion
        self._item = item
        self._erased = erased
        self._after, self._next = item.after, item.first
        self._foreign: list[Archived] = []

    def take(self, row: Archived) -> Iterator[Step]:
        if row.stream != self._item.stream or id_order(row.entry_id) <= id_order(self._after):
            return
        if not row.number:
            # Entries without a number belong to the portion only if one with a number follows, or it is the last of its range.
            self._foreign.append(row)
        elif row.incarnation == self._item.incarnation and self._next <= row.number <= self.portion.upto:
            yield from self._give_foreign()
            yield from self._pass_over(row.number - 1)
            yield self._step(row, to=row.number)

    def _give_foreign(self) -> Iterator[Step]:
        for row in self._foreign:
            yield self._step(row, to=self._next - 1)
        self._foreign = []

    def _pass_over(self, to: int) -> Iterator[Step]:
        """Numbers up to this one, which have no row."""
        if not self._item.first or self._next > to:
            return
        erased = self._erased().get((self._item.stream, self._item.incarnation), ())
        for last, is_erased in pieces(self._next, to, erased=erased):
            yield self._step(None, to=last, is_lost=not is_erased)

    def _step(self, row: Archived | None, *, to: int, is_lost: bool = False, is_end: bool = False) -> Step:
        """Up to and including the number `to`: that of this row, or all of them without one."""
        before, last = range_value(self._after, self._next, self._item.last), self._item.last
        less = max(0, to - self._next + 1)
        missing = f"events:{self._item.stream}|{self._item.incarnation}:{self._next}-{to}={less}" if is_lost else ""
        self._after, self._next = (row.entry_id if row is not None else self._after), max(self._next, to + 1)
        # What follows the last number may be foreign entries still.
        after = "" if is_end else range_value(self._after, self._next, last)
        origin, fields = (row.entry_id, row.fields) if row is not None else ("0-0", [])
        return Step(self._item.field, before, after, less, missing, origin, fields)

    def close(self) -> Iterator[Step]:
        if self.portion.is_whole:
            yield from self._give_foreign()
            yield from self._pass_over(self._item.last)
            yield self._step(None, to=self._next - 1, is_end=True)
        else:
            yield from self._pass_over(self.portion.upto)
