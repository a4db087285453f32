from __future__ import annotations

import re

import orjson
import pytest

from tests.benchmarks.archiving import Large, drain_rows, fresh_rows, large_rows, replay_rows
from tests.benchmarks.backlog import BODY_BYTES, a_push
from tests.benchmarks.freshness import Fresh
from tests.benchmarks.rates import Observation
from tests.benchmarks.rows import Row
from tests.documents import ROOT, table_rows

PAGE = ROOT / "tests" / "benchmarks" / "README.md"
RATES = {"drain": 30_000.0, "parquet": 40_000.0, "bare-drain": 40_000.0, "bare-parquet": 100_000.0, "ingest": 15_000.0}
# 1 ms a row at first, 2 ms at the end.
SLOWING = [Observation(0, 0), Observation(10, 10_000), Observation(210, 210_000), Observation(400, 1_800_000), Observation(800, 2_000_000)]


def all_rows() -> list[Row]:
    return [
        *drain_rows({what: [rate] for what, rate in RATES.items()}),
        *replay_rows({"replay": [25_000.0]}),
        *large_rows(Large(SLOWING, heap_bytes=1_000_000_000)),
        *fresh_rows([Fresh(26.0, [1.0] * 94 + [5.0] * 6)]),
    ]


def test_every_row_is_on_the_page_with_its_goal() -> None:
    on_page = {
        name: line.split("|")[3].strip()
        for line in table_rows(PAGE, heading="archive", first="row")
        for name in re.findall(r"`([^`]+)`", line.split("|")[1])
    }

    assert on_page == {row.name: f"{row.goal.kind} {row.goal.bound:g}" if row.goal else "" for row in all_rows()}


def test_goals_are_judged_against_the_right_anchor() -> None:
    assert {row.name: row.met for row in all_rows() if row.goal} == {
        "archive/drain": True,
        "archive/drain-without-variant": False,
        "archive/catch-up": False,
        "archive/replay": True,
        "archive/many-rows": False,
        "archive/heap": True,
        "archive/queryable-p95": True,
        "archive/ready": False,
    }


def test_the_last_tenth_of_the_table_is_compared_with_as_many_rows_after_the_first_few() -> None:
    assert Large(SLOWING, 0).seconds_per_row() == pytest.approx((0.002, 0.001))


def test_bodies_have_the_size_that_is_stated_and_differ() -> None:
    bodies = [a_push(number) for number in range(8)]

    assert [len(body) for body in bodies] == [BODY_BYTES] * 8
    assert len({orjson.loads(body)["note"] for body in bodies}) == 8
