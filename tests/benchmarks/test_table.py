from __future__ import annotations

import pytest
from rich.console import Console

from tests.benchmarks.rates import Figure
from tests.benchmarks.rows import Goal, Row
from tests.benchmarks.table import table_of

OURS, ANCHOR = Figure((1000.0, 2000.0, 3000.0)), Figure((10.0, 20.0, 60.0))


def shown(row: Row) -> str:
    screen = Console(width=150, force_terminal=True, color_system="standard", legacy_windows=False)
    with screen.capture() as captured:
        screen.print(table_of([row]))
    return captured.get()


def test_a_line_shows_medians_spreads_and_the_ratio() -> None:
    line = shown(Row("a/b", "events/s", OURS, ANCHOR))

    assert all(part in line for part in ("a/b", "events/s", "2,000 [1,000..3,000]", "20.0 [10.0..60.0]", "100.00 [50.00..100.00]"))


@pytest.mark.parametrize(("bound", "colour", "word"), [(101, "\x1b[31m", "MISSED"), (100, "\x1b[32m", "met")])
def test_a_missed_goal_is_red_and_a_met_one_green(bound: float, colour: str, word: str) -> None:
    assert f"{colour}at least {bound}: {word}" in shown(Row("a/b", "events/s", OURS, ANCHOR, Goal(bound)))


def test_a_row_without_a_goal_has_no_verdict() -> None:
    line = shown(Row("a/b", "events/s", OURS, ANCHOR))

    assert "met" not in line
    assert "MISSED" not in line
