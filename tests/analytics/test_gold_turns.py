"""When gold tables are refreshed: one after the other, and what becomes of the round when one fails."""

from __future__ import annotations

import time
from contextlib import nullcontext
from pathlib import Path

import pytest
from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException

from analytics.gold import RECIPES, Gold, Recipe
from analytics.settings import ArchiveSettings
from schemas.errors import NotTheArchive, StreamUnavailable, WriteSkipped
from tests.analytics.conftest import OpenGold


def test_one_table_after_the_other_is_refreshed_and_none_when_gold_is_turned_off(
    open_gold: OpenGold, monkeypatch: pytest.MonkeyPatch
) -> None:
    refreshed: list[str] = []

    def note(_: Gold, recipe: Recipe) -> bool:
        refreshed.append(recipe.table.name)
        return False

    monkeypatch.setattr(Gold, "refresh", note)
    often, rarely, never = (open_gold() for _ in range(3))
    often.settings, never.settings = ArchiveSettings(gold_interval_ms=1), ArchiveSettings(gold_interval_ms=0)

    for gold in (often, rarely, never):
        gold.serve()
    assert refreshed == []

    for _ in range(3):
        time.sleep(0.01)
        for gold in (often, rarely, never):
            gold.serve()
    assert refreshed == ["traffic_hourly", "processors_hourly", "schema_drift"]


def test_what_goes_wrong_with_gold_is_logged_and_tried_again(open_gold: OpenGold, home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    gold = open_gold()
    gold.settings = ArchiveSettings(gold_interval_ms=1)
    (home / "lake").mkdir()
    (home / "lake" / "traffic_hourly").write_text("no table")
    gold.serve()
    time.sleep(0.01)

    gold.serve()

    assert capsys.readouterr().err.count("a gold table could not be refreshed") == 1


@pytest.mark.parametrize("error", [PySparkException("x"), Py4JError("x"), StreamUnavailable("x"), WriteSkipped("x")])
def test_what_time_may_heal_is_logged_and_does_not_end_the_round(
    open_gold: OpenGold, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], error: Exception
) -> None:
    assert refreshed_in_turn(open_gold(), monkeypatch, error) == ["traffic_hourly", "processors_hourly", "schema_drift"]
    assert capsys.readouterr().err.count("a gold table could not be refreshed") == 3


@pytest.mark.parametrize("error", [RecursionError("x"), ValueError("x"), NotTheArchive("x")])
def test_a_table_that_ends_the_round_has_its_next_turn_after_the_others(
    open_gold: OpenGold, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    """Else every round would end there, and what comes after gold would never be done again."""
    refreshed = refreshed_in_turn(open_gold(), monkeypatch, error, raised=type(error))

    assert refreshed == ["traffic_hourly", "processors_hourly", "schema_drift"]


def refreshed_in_turn(gold: Gold, monkeypatch: pytest.MonkeyPatch, error: Exception, *, raised: type[Exception] | None = None) -> list[str]:
    """Which tables are tried in four rounds, when all are due and each fails."""
    tried: list[str] = []

    def fail(_: Gold, recipe: Recipe) -> bool:
        tried.append(recipe.table.name)
        raise error

    monkeypatch.setattr(Gold, "refresh", fail)
    gold._due = {recipe.table.name: 0.0 for recipe in RECIPES}
    for _ in RECIPES:
        with pytest.raises(raised) if raised else nullcontext():
            gold.serve()
    gold.serve()
    return tried
