"""Owns plots: values over time as inline SVG, for a page that asks nobody for anything. Pure.

Colours are the page's own (`var(--series-1)` and so on), so that a plot is as dark or as light as the page. A plot says in words what it
shows, for whoever cannot see it; the page has its numbers in a table beside it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from html import escape

WIDTH, HEIGHT = 880, 260
LEFT, RIGHT, TOP, BOTTOM = 64, 12, 12, 34
SERIES = 7
"""So many series have a colour of their own."""


@dataclass(frozen=True, slots=True)
class Series:
    """One line, or one layer of bars; a value for each time, None where there is none."""

    name: str
    values: Sequence[float | None]


@dataclass(frozen=True, slots=True)
class Plot:
    """What is shown: its title, the times, the values at them."""

    title: str
    times: Sequence[datetime]
    series: Sequence[Series]
    unit: str = ""


def bars(plot: Plot) -> str:
    """Layers on top of each other: what all of them are together, and what each is of it."""
    totals = [sum(one.values[place] or 0 for one in plot.series) for place in range(len(plot.times))]
    top = nice_top(max(totals, default=0))
    step = _plot_width() / max(1, len(plot.times))
    shapes = []
    for place in range(len(plot.times)):
        below = 0.0
        for number, one in enumerate(plot.series):
            value = one.values[place] or 0
            if value:
                high, low = _y(below + value, top=top), _y(below, top=top)
                shapes.append(_rect(LEFT + place * step, high, max(0.5, step * 0.9), low - high, number=number))
                below += value
    return _figure(plot, top=top, shapes=shapes, at=[LEFT + (place + 0.45) * step for place in range(len(plot.times))])


def lines(plot: Plot) -> str:
    """One line for each series; where a value is missing, the line is interrupted."""
    top = nice_top(max((value for one in plot.series for value in one.values if value is not None), default=0))
    at = [LEFT + _plot_width() * (place + 0.5) / max(1, len(plot.times)) for place in range(len(plot.times))]
    shapes = [
        _polyline([(at[place], _y(one.values[place] or 0, top=top)) for place in run], number=number)
        for number, one in enumerate(plot.series)
        for run in runs(one.values)
    ]
    return _figure(plot, top=top, shapes=shapes, at=at)


def runs(values: Sequence[float | None]) -> list[list[int]]:
    """The places of values that follow each other without a gap."""
    found: list[list[int]] = []
    for place, value in enumerate(values):
        if value is None:
            continue
        if found and found[-1][-1] == place - 1:
            found[-1].append(place)
        else:
            found.append([place])
    return found


def nice_top(most: float) -> float:
    """A round number at or above the greatest value: one, two or five times a power of ten; 1 when there is nothing."""
    if most <= 0:
        return 1.0
    power = 10.0 ** math.floor(math.log10(most))
    return next(factor * power for factor in (1.0, 2.0, 5.0, 10.0) if factor * power >= most * (1 - 1e-9))


def number_text(value: float) -> str:
    """Short, for an axis: 12,500 is 12.5k."""
    for factor, letter in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= factor:
            return f"{value / factor:.4g}{letter}"
    return f"{value:.4g}"


def _figure(plot: Plot, *, top: float, shapes: Sequence[str], at: Sequence[float]) -> str:
    parts = [*_grid(top, unit=plot.unit), *shapes, *_time_labels(plot.times, at=at)]
    drawing = (
        f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{escape(description(plot))}">'
        f"<title>{escape(plot.title)}</title>{''.join(parts)}</svg>"
    )
    return f"<figure>{drawing}<figcaption>{_legend(plot)}</figcaption></figure>"


def description(plot: Plot) -> str:
    """What the plot shows, in a sentence."""
    if not plot.times:
        return f"{plot.title}: nothing in this time."
    said = "; ".join(f"{one.name} up to {number_text(max((value or 0 for value in one.values), default=0))}" for one in plot.series)
    period = f"from {plot.times[0]:%Y-%m-%d %H:%M} to {plot.times[-1]:%Y-%m-%d %H:%M} UTC"
    return f"{plot.title}, {period}: {said}{' ' + plot.unit if plot.unit else ''}."


def _legend(plot: Plot) -> str:
    entries = (f'<span class="key k{number % SERIES + 1}"></span>{escape(one.name)}' for number, one in enumerate(plot.series))
    return "".join(f"<span>{entry}</span>" for entry in entries)


def _grid(top: float, *, unit: str) -> list[str]:
    found = []
    for part in range(5):
        value = top * part / 4
        y = _y(value, top=top)
        label = f"{number_text(value)}{' ' + unit if unit and part == 4 else ''}"
        found.append(f'<line class="grid" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y:.1f}" y2="{y:.1f}"/>')
        found.append(f'<text class="axis" x="{LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">{escape(label)}</text>')
    return found


def _time_labels(times: Sequence[datetime], *, at: Sequence[float]) -> list[str]:
    every = max(1, math.ceil(len(times) / 8))
    is_long = len(times) > 1 and times[-1] - times[0] > timedelta(days=2)
    form = "%b %d" if is_long else "%H:%M"
    return [
        f'<text class="axis" x="{at[place]:.1f}" y="{HEIGHT - 10}" text-anchor="middle">{times[place]:{form}}</text>'
        for place in range(0, len(times), every)
    ]


def _rect(x: float, y: float, width: float, height: float, *, number: int) -> str:
    return f'<rect class="s{number % SERIES + 1}" x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{max(0.5, height):.1f}"/>'


def _polyline(points: Sequence[tuple[float, float]], *, number: int) -> str:
    if len(points) == 1:
        (x, y) = points[0]
        return f'<circle class="s{number % SERIES + 1}" cx="{x:.1f}" cy="{y:.1f}" r="3"/>'
    text = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
    return f'<polyline class="l{number % SERIES + 1}" points="{text}"/>'


def _plot_width() -> float:
    return WIDTH - LEFT - RIGHT


def _y(value: float, *, top: float) -> float:
    return TOP + (HEIGHT - TOP - BOTTOM) * (1 - value / top)
