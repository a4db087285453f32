from __future__ import annotations

import ast
import json
from pathlib import Path

import pytest

from tests.documents import ROOT
from tests.faults.__main__ import complaints, exit_code, write
from tests.faults.rows import ROWS, Outcome, RowsPlugin, rows_called

pytest_plugins = ["pytester"]

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


A_RUN = """
    import pytest

    @pytest.fixture
    def tracer():
        pytest.skip("strace is missing")

    @pytest.mark.fault("B5")
    def test_nobody_can_slow_a_disk_down(tracer): ...

    @pytest.mark.control("B5")
    def test_nor_that_of_the_control(tracer): ...

    @pytest.mark.fault("B4")
    def test_a_hang(): ...

    @pytest.mark.control("B4")
    def test_a_hang_that_does_harm(): ...

    @pytest.mark.fault("B4", "B1")
    def test_a_hang_that_needs_a_tracer():
        pytest.skip("strace is missing")

    @pytest.mark.fault("B6")
    def test_a_reset(): ...

    @pytest.mark.control("B6")
    @pytest.mark.skip(reason="there is no proxy")
    def test_a_reset_that_does_harm(): ...
"""


@pytest.fixture
def outcomes(pytester: pytest.Pytester) -> dict[str, Outcome]:
    """The rows B4 to B7 after a run in which some tests could not be run, and B7 had none."""
    pytester.makeini("[pytest]\nasyncio_default_fixture_loop_scope = function\nmarkers =\n    fault(row)\n    control(row)")
    pytester.makepyfile(A_RUN)
    rows = RowsPlugin(only=["B4", "B5", "B6", "B7"], seed=7)
    pytester.inline_run("-p", "no:cacheprovider", plugins=[rows])
    return rows.outcomes


def test_a_row_that_could_not_be_run_is_written_down_as_not_passed_with_the_reason(outcomes: dict[str, Outcome], tmp_path: Path) -> None:
    write(list(outcomes.values()), path=tmp_path / "faults.json")

    written = {row["row"]: row for row in json.loads((tmp_path / "faults.json").read_text())}
    assert {name: (row["passed"], row["control_red"]) for name, row in written.items()} == {
        "B4": (True, True),
        "B5": (False, None),
        "B6": (True, None),
        "B7": (False, None),
    }
    assert written["B5"]["skipped"] == {"strace is missing": 1}
    assert written["B5"]["skipped_controls"] == {"strace is missing": 1}


def test_a_run_that_left_a_row_or_its_control_out_fails_and_says_why(outcomes: dict[str, Outcome]) -> None:
    chosen = list(outcomes.values())

    assert complaints(chosen) == [
        "B4: 1 of 2 tests not run: strace is missing",
        "B5 was not run: strace is missing",
        "the control of B5 was not run: strace is missing",
        "the control of B6 was not run: there is no proxy",
        "B7 was not run: none of its tests was found, or the run ended before them",
    ]
    assert [exit_code([outcomes[row]], pytest_code=0) for row in ("B4", "B5", "B6", "B7")] == [0, 1, 1, 1]
    assert (exit_code(chosen, pytest_code=0), exit_code([outcomes["B4"]], pytest_code=1), exit_code([], pytest_code=0)) == (1, 1, 1)
