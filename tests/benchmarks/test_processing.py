from __future__ import annotations

import re
import sys
from pathlib import Path

from tests.benchmarks.peer import all_peers
from tests.benchmarks.processing import rows_of
from tests.benchmarks.racing import Run
from tests.benchmarks.rows import Row
from tests.benchmarks.waiting import all_waiting, wait_rows
from tests.documents import ROOT, table_rows, unnamed_modules

PAGE = ROOT / "tests" / "benchmarks" / "README.md"
NAMES = ["hooklake", "bare-loop", *(peer.name for peer in all_peers(Path(sys.executable), scale=1))]


def some_runs() -> dict[str, list[Run]]:
    rates = {"hooklake": 20_000.0, "bare-loop": 10_000.0, "few": 20_000.0, "many": 18_000.0, "pending": 10_000.0}
    names = [*NAMES, *(f"{name}-everysec" for name in NAMES[2:]), "few", "many", "pending"]
    return {name: [Run(rates.get(name, 1000.0), 100_000_000, 50_000_000)] for name in names}


def all_rows() -> list[Row]:
    waits_ms = {"urgent-among-low": 5.0, "tenant-in-flood": 5.0}
    return [*rows_of(some_runs()), *wait_rows({waiting.name: [waits_ms.get(waiting.name, 2.0)] for waiting in all_waiting(scale=1)})]


def test_every_row_is_on_the_page_with_its_goal() -> None:
    on_page = {
        name: line.split("|")[3].strip()
        for line in table_rows(PAGE, heading="processing", first="row")
        for name in re.findall(r"`([^`]+)`", line.split("|")[1])
    }
    rows = {re.sub(r"/[\w-]+-everysec$", "/<peer>-everysec", row.name): row for row in all_rows()}

    assert on_page == {name: f"{row.goal.kind} {row.goal.bound:g}" if row.goal else "" for name, row in rows.items()}


def test_goals_are_judged_against_the_right_anchor() -> None:
    met = {row.name: row.met for row in all_rows() if row.met is not None}

    assert met == {
        "processing/bare-loop": True,
        "processing/celery": True,
        "processing/best-of-three": True,
        "processing/many-entries": True,
        "processing/many-pending": False,
        "processing/memory": True,
        "processing/urgent-wait": True,
        "processing/tenant-wait": False,
    }


def test_the_page_names_every_module() -> None:
    assert {name for name in unnamed_modules(PAGE) if not name.startswith("test_")} == set()
