"""Owns how rows are shown to a person: one line each, a missed goal in red."""

from __future__ import annotations

from rich.table import Table
from rich.text import Text

from tests.benchmarks.rates import Figure
from tests.benchmarks.rows import Row


def table_of(rows: list[Row]) -> Table:
    table = Table()
    table.add_column("benchmark", no_wrap=True)
    table.add_column("unit", no_wrap=True)
    for heading in ("ours", "anchor", "ratio", "goal"):
        table.add_column(heading, justify="right")
    for row in rows:
        style = "red" if row.met is False else "green" if row.met else ""
        table.add_row(row.name, row.unit, figure_text(row.ours), figure_text(row.anchor), ratio_text(row), Text(goal_text(row), style))
    return table


def figure_text(figure: Figure | None) -> str:
    """The median, and in brackets the least and the most that was measured."""
    if figure is None:
        return "-"
    least, most = figure.spread
    return f"{number_text(figure.median)} [{number_text(least)}..{number_text(most)}]"


def ratio_text(row: Row) -> str:
    if row.ratio is None or row.ratio_spread is None:
        return "-"
    least, most = row.ratio_spread
    return f"{row.ratio:.2f} [{least:.2f}..{most:.2f}]"


def goal_text(row: Row) -> str:
    if row.goal is None:
        return "-"
    return f"{row.goal.kind} {row.goal.bound:g}: {'met' if row.met else 'MISSED'}"


def number_text(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.1f}"
