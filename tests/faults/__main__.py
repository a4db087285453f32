"""Runs every fault row at full size with its control: `make faults [ONLY=D5|C,D] [SEED=7]`; writes `.hooklake/faults.json`."""

from __future__ import annotations

import random
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import orjson
import pytest
import typer
from rich.console import Console
from rich.table import Table

from infra.settings import home_directory
from tests.faults.rows import ROWS, Outcome, RowsPlugin, rows_called


def main(
    only: Annotated[str, typer.Option(help="Only these rows, such as D5 or D5,E1, or whole groups, such as C,D.")] = "",
    seed: Annotated[int, typer.Option(help="Repeats the choices of an earlier run; 0 takes a new one.")] = 0,
) -> None:
    """Runs every fault row with its control; exits with 1 when a row failed, a control stayed green, or one of them was not run."""
    try:
        chosen_rows = rows_called(only)
    except KeyError as error:
        sys.exit(f"{error.args[0]} is no fault row: use one of {', '.join(ROWS)}")
    chosen_seed = seed or random.SystemRandom().randrange(1, 2**31)
    rows = RowsPlugin(only=chosen_rows, seed=chosen_seed)
    code = pytest.main(["tests", "--full-size", f"--seed={chosen_seed}", "-q", "-p", "no:cacheprovider"], plugins=[rows])
    outcomes = [rows.outcomes[row] for row in sorted(rows.outcomes)]
    path = home_directory() / "faults.json"
    write(outcomes, path=path)
    show(outcomes, path=path)
    sys.exit(exit_code(outcomes, pytest_code=code))


def exit_code(outcomes: Sequence[Outcome], *, pytest_code: int) -> int:
    """0 only where every row was run and survived, and its control, if it has one, was run and did not. Pure."""
    are_proven = (outcome.passed and outcome.control_red is not False and not outcome.lacks_its_control for outcome in outcomes)
    return 0 if pytest_code == 0 and outcomes and all(are_proven) else 1


def complaints(outcomes: Sequence[Outcome]) -> list[str]:
    """What was not run, and why, as sentences. Pure."""
    found = []
    for outcome in outcomes:
        why = "; ".join(outcome.skipped) or "none of its tests was found, or the run ended before them"
        left_out = sum(outcome.skipped.values())
        if not outcome.tests:
            found.append(f"{outcome.row} was not run: {why}")
        elif left_out:
            found.append(f"{outcome.row}: {left_out} of {outcome.tests + left_out} tests not run: {why}")
        if outcome.lacks_its_control:
            found.append(f"the control of {outcome.row} was not run: {'; '.join(outcome.skipped_controls)}")
    return found


def write(outcomes: list[Outcome], *, path: Path) -> None:
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    path.write_bytes(orjson.dumps([outcome.as_dict() for outcome in outcomes], option=orjson.OPT_INDENT_2))


def show(outcomes: list[Outcome], *, path: Path) -> None:
    table = Table("row", "fault", "tests", "survived", "control")
    for outcome in outcomes:
        none = "[red]not run[/]" if outcome.lacks_its_control else "none"
        control = {True: "[green]red, as it must be[/]", False: "[red]green[/]", None: none}[outcome.control_red]
        survived = "[green]yes[/]" if outcome.passed else "[red]no[/]" if outcome.tests else "[red]not run[/]"
        table.add_row(outcome.row, outcome.what, str(outcome.tests), survived, control)
    console = Console()
    console.print(table)
    for complaint in complaints(outcomes):
        console.print(complaint, highlight=False, markup=False)
    console.print(f"seed {outcomes[0].seed if outcomes else '-'}; written to {path}", highlight=False)


if __name__ == "__main__":
    typer.run(main)
