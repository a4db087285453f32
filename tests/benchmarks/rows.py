"""Owns the result of a benchmark: rows with a figure, what it is compared with, the goal, and whether it is met. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from tests.benchmarks.rates import Figure, pairwise_ratios


@dataclass(frozen=True, slots=True)
class Goal:
    """A bound for the ratio, or for our own figure where there is nothing to compare it with."""

    bound: float
    kind: Literal["at least", "at most"] = "at least"

    def is_met_by(self, value: float) -> bool:
        return value >= self.bound if self.kind == "at least" else value <= self.bound


@dataclass(frozen=True, slots=True)
class Row:
    """One line of the table."""

    name: str
    """`<benchmark>/<what>`, such as `processing/celery`."""
    unit: str
    ours: Figure
    anchor: Figure | None = None
    goal: Goal | None = None

    @property
    def ratio(self) -> float | None:
        """Of the two medians, so that a reader can check it."""
        return None if self.anchor is None else self.ours.median / self.anchor.median

    @property
    def ratio_spread(self) -> tuple[float, float] | None:
        return None if self.anchor is None else pairwise_ratios(self.ours, self.anchor).spread

    @property
    def met(self) -> bool | None:
        if self.goal is None:
            return None
        return self.goal.is_met_by(self.ours.median if self.ratio is None else self.ratio)

    def as_json(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "ours": self.ours.median,
            "anchor": self.anchor.median if self.anchor else None,
            "ratio": self.ratio,
            "goal": self.goal.bound if self.goal else None,
            "met": self.met,
            "goal_kind": self.goal.kind if self.goal else None,
            "unit": self.unit,
            "repetitions": len(self.ours.samples),
            "ours_spread": list(self.ours.spread),
            "anchor_spread": list(self.anchor.spread) if self.anchor else None,
            "ratio_spread": list(self.ratio_spread) if self.ratio_spread else None,
        }
