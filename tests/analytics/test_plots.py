from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from xml.etree import ElementTree

import pytest

from analytics.plots import HEIGHT, SERIES, WIDTH, Plot, Series, bars, description, lines, nice_top, number_text, runs

NOON = datetime(2026, 1, 31, 12, tzinfo=UTC)
HOURS = [NOON + timedelta(hours=hour) for hour in range(4)]


def a_plot(*series: Series) -> Plot:
    return Plot("Events <received>", HOURS, series, unit="s")


@pytest.mark.parametrize(("most", "top"), [(0, 1), (1, 1), (1.1, 2), (3, 5), (7, 10), (10, 10), (12_345, 20_000), (0.03, 0.05)])
def test_an_axis_ends_at_a_round_number(most: float, top: float) -> None:
    assert nice_top(most) == pytest.approx(top)


@pytest.mark.parametrize(("value", "text"), [(0, "0"), (12.5, "12.5"), (12_500, "12.5k"), (2_000_000, "2M"), (3e9, "3G")])
def test_numbers_of_an_axis_are_short(value: float, text: str) -> None:
    assert number_text(value) == text


def test_a_line_is_interrupted_where_there_is_no_value() -> None:
    assert runs([None, 1.0, 2.0, None, None, 3.0]) == [[1, 2], [5]]


@pytest.mark.parametrize("draw", [bars, lines])
def test_a_plot_is_well_formed_and_everything_lies_within_it(draw: type[str]) -> None:
    series = [Series(f"<b>{number}</b>", [1.0, None, float(number), 9.0]) for number in range(SERIES + 2)]

    figure = ElementTree.fromstring(draw(a_plot(*series)))

    numbers = {name: [float(node.attrib[name]) for node in figure.iter() if name in node.attrib] for name in ("x", "y", "cx", "cy")}
    assert all(0 <= value <= WIDTH for value in numbers["x"] + numbers["cx"])
    assert all(0 <= value <= HEIGHT for value in numbers["y"] + numbers["cy"])
    points = [pair.split(",") for node in figure.iter("polyline") for pair in node.attrib["points"].split()]
    assert all(0 <= float(y) <= HEIGHT for _, y in points)


def test_layers_lie_on_top_of_each_other() -> None:
    drawn = bars(a_plot(Series("one", [10.0, 0, 0, 0]), Series("two", [10.0, 0, 0, 0])))

    (low, high) = [
        (float(y), float(height))
        for y, height in re.findall(r'<rect class="s\d" x="[\d.]+" y="([\d.]+)" width="[\d.]+" height="([\d.]+)"', drawn)
    ]
    assert high[0] + high[1] == pytest.approx(low[0], abs=0.2)
    assert low[1] == pytest.approx(high[1], abs=0.2)


def test_a_plot_says_in_words_what_it_shows() -> None:
    assert description(a_plot(Series("all", [1.0, None, 3000.0, 2.0]))) == (
        "Events <received>, from 2026-01-31 12:00 to 2026-01-31 15:00 UTC: all up to 3k s."
    )
    assert description(Plot("Events", [], [])) == "Events: nothing in this time."


def test_a_plot_of_nothing_can_be_drawn() -> None:
    assert "<svg" in bars(Plot("Events", [], []))
    assert "<svg" in lines(a_plot(Series("none", [None] * 4)))
