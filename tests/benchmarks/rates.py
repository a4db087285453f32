"""Owns turning repeated measurements into figures: rates, medians, spreads. Pure."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass


class CannotMeasure(Exception):
    """The benchmark could not be run; the text says which part and why."""


@dataclass(frozen=True, slots=True)
class Observation:
    """How many events were done at a moment."""

    at_s: float
    done: int


def events_per_second(first: Observation, last: Observation) -> float:
    """From the first events seen done to the last: a process's start is not its speed. Raises CannotMeasure."""
    if last.done <= first.done or last.at_s <= first.at_s:
        raise CannotMeasure(f"all {last.done} events were done before a second look; measure more of them")
    return (last.done - first.done) / (last.at_s - first.at_s)


def seconds_per_event(seen: Sequence[Observation], *, low: int, high: int) -> float:
    """From the first look that found `low` done to the first that found `high`, per event done meanwhile. Raises CannotMeasure."""
    first = next((one for one in seen if one.done >= low), seen[-1])
    last = next((one for one in seen if one.done >= high), seen[-1])
    return 1 / events_per_second(first, last)


def p95(samples: Sequence[float]) -> float:
    """What 95 of 100 stay below. Raises CannotMeasure."""
    if len(samples) < 2:
        raise CannotMeasure(f"{len(samples)} samples have no 95th percentile; measure more of them")
    return statistics.quantiles(samples, n=100, method="inclusive")[94]


def p99(samples: Sequence[float]) -> float:
    """What 99 of 100 stay below. Raises CannotMeasure."""
    if len(samples) < 2:
        raise CannotMeasure(f"{len(samples)} samples have no 99th percentile; measure more of them")
    return statistics.quantiles(samples, n=100, method="inclusive")[98]


def p999(samples: Sequence[float]) -> float:
    """What 999 of 1,000 stay below. Raises CannotMeasure."""
    if len(samples) < 2:
        raise CannotMeasure(f"{len(samples)} samples have no such percentile; measure more of them")
    return statistics.quantiles(samples, n=1000, method="inclusive")[998]


@dataclass(frozen=True, slots=True)
class Figure:
    """One quantity over all repetitions."""

    samples: tuple[float, ...]

    @property
    def median(self) -> float:
        return statistics.median(self.samples)

    @property
    def spread(self) -> tuple[float, float]:
        return min(self.samples), max(self.samples)


def best_of(figures: Sequence[Figure]) -> Figure:
    """The one with the highest median."""
    return max(figures, key=lambda figure: figure.median)


def pairwise_ratios(ours: Figure, anchor: Figure) -> Figure:
    """Repetition by repetition: both of a pair ran within the same minute of the same machine."""
    return Figure(tuple(mine / theirs for mine, theirs in zip(ours.samples, anchor.samples, strict=True)))
