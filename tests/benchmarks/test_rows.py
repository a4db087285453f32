from __future__ import annotations

import pytest

from tests.benchmarks.rates import Figure
from tests.benchmarks.rows import Goal, Row

OURS, ANCHOR = Figure((100.0, 200.0, 300.0)), Figure((10.0, 20.0, 60.0))


def test_the_ratio_is_that_of_the_medians_and_its_spread_that_of_the_repetitions() -> None:
    row = Row("a/b", "events/s", OURS, ANCHOR)

    assert (row.ratio, row.ratio_spread) == (10.0, (5.0, 10.0))


@pytest.mark.parametrize(
    ("goal", "met"), [(Goal(10), True), (Goal(10.1), False), (Goal(10, "at most"), True), (Goal(9.9, "at most"), False), (None, None)]
)
def test_a_goal_bounds_the_ratio(goal: Goal | None, met: bool | None) -> None:
    assert Row("a/b", "events/s", OURS, ANCHOR, goal).met is met


@pytest.mark.parametrize(("bound", "met"), [(199.0, False), (200.0, True)])
def test_without_an_anchor_the_goal_bounds_our_own_figure(bound: float, met: bool) -> None:
    assert Row("a/memory", "MB", OURS, None, Goal(bound, "at most")).met is met


def test_a_row_in_json_has_every_field() -> None:
    assert Row("a/b", "events/s", OURS, ANCHOR, Goal(20)).as_json() == {
        "name": "a/b",
        "ours": 200.0,
        "anchor": 20.0,
        "ratio": 10.0,
        "goal": 20,
        "met": False,
        "goal_kind": "at least",
        "unit": "events/s",
        "repetitions": 3,
        "ours_spread": [100.0, 300.0],
        "anchor_spread": [10.0, 60.0],
        "ratio_spread": [5.0, 10.0],
    }


def test_what_a_row_lacks_is_null_in_json() -> None:
    row = Row("a/memory", "MB", OURS).as_json()

    assert {name for name, value in row.items() if value is None} == {
        "anchor", "ratio", "goal", "met", "goal_kind", "anchor_spread", "ratio_spread",
    }  # fmt: skip
