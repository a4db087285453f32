"""Owns how one reading budget is shared among the streams of a group, and which waiting entry is next. Pure.

COUNT is per stream, so a budget has to be divided before it is known where entries wait. Classes that filled their share
the last time are hungry and share what the others leave, by weight: urgent gets most, and nobody gets nothing. When there
is not even room for one entry of each stream, classes take turns, as often as their weights say: the hungry ones every other
time, and in between all of them, since a class is known to be hungry only after it was asked.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from types import MappingProxyType

# How much more often an urgent entry is taken than a low one when both wait. A retry has waited once already; what is replayed has been
# in the archive for long, and must not delay what arrives.
WEIGHTS: Mapping[str, int] = MappingProxyType({"urgent": 16, "retry": 8, "default": 8, "low": 2, "overflow": 1, "replay": 1})


def turns() -> list[str]:
    """Every class as often as its weight says, spread out: the order in which hungry classes take turns."""
    spread = [((index + 0.5) / weight, -weight, name) for name, weight in WEIGHTS.items() for index in range(weight)]
    return [name for _, _, name in sorted(spread)]


TURNS = turns()


def allot(
    room: int, *, hungry: Collection[str], streams_per_class: int, turn: int, classes: Collection[str] = tuple(WEIGHTS)
) -> dict[str, int]:
    """How many entries to ask each stream of these classes for; together never more than `room`, which is at least one of each class.

    A class that is not asked has no key.
    """
    every = len(classes) * streams_per_class
    if room < every:
        name = _whose_turn(hungry if hungry and turn % 2 else classes, turn=turn // 2)
        return {name: max(1, room // streams_per_class)}
    total = sum(WEIGHTS[name] for name in hungry)
    if not total:
        return dict.fromkeys(classes, room // every)
    rest = room - every
    return {name: 1 + (rest * WEIGHTS[name] // total // streams_per_class if name in hungry else 0) for name in classes}


def _whose_turn(names: Collection[str], *, turn: int) -> str:
    order = [name for name in TURNS if name in names]
    return order[turn % len(order)]
