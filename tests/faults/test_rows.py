from __future__ import annotations

import ast
from pathlib import Path

import pytest

from tests.documents import ROOT
from tests.faults.rows import ROWS, Outcome, rows_called

WITHOUT_CONTROL = {"SCALE": "a way to run the archive, and no fault: there is no protection to take away"}
"""Rows whose test nobody has seen fail, and why."""


def marked_rows() -> dict[str, set[str]]:
    """The rows that tests are marked with, by marker."""
    found: dict[str, set[str]] = {"fault": set(), "control": set()}
    for path in Path(ROOT / "tests").rglob("test_*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and ast.unparse(node.func.value).endswith("mark"):
                rows = found.get(node.func.attr)
                if rows is not None:
                    rows |= {str(argument.value) for argument in node.args if isinstance(argument, ast.Constant)}
    return found


def test_every_row_has_a_test_and_every_mark_names_a_row() -> None:
    marked = marked_rows()

    assert marked["fault"] == set(ROWS)


def test_every_row_has_a_control_or_a_reason_for_having_none() -> None:
    assert marked_rows()["control"] == set(ROWS) - set(WITHOUT_CONTROL)


def test_rows_are_called_by_their_names_and_groups_by_their_letters() -> None:
    assert rows_called("D5,E1") == ["D5", "E1"]
    assert rows_called("C") == [row for row in ROWS if row.startswith("C")]
    assert rows_called("SCALE") == ["SCALE"]
    assert rows_called("") == list(ROWS)
    with pytest.raises(KeyError, match="Z9"):
        rows_called("D5,Z9")


def test_a_row_passes_when_all_its_tests_did_and_its_control_is_red_when_they_say_so() -> None:
    row = Outcome("D5", "a zombie", seed=7, tests=2, controls=1)
    assert (row.as_dict()["passed"], row.as_dict()["control_red"]) == (True, True)

    row.failed.append("test_zombie.py")
    row.green_controls.append("test_control.py")
    assert (row.passed, row.control_red) == (False, False)


def test_a_row_without_a_control_says_so() -> None:
    assert Outcome("B1", "a kill", seed=7, tests=1).control_red is None
    assert not Outcome("B1", "a kill", seed=7).passed
