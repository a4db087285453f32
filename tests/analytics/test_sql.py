from __future__ import annotations

import re
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from analytics.catalog import Lake
from analytics.formats import Format
from analytics.questions import Limits
from analytics.settings import ArchiveSettings
from analytics.sql import Prompt, remembered
from schemas.errors import ConfigError


def prompt(home: Path, *, is_watched: bool = True) -> Prompt:
    return Prompt(Lake(ArchiveSettings(), home), Limits(), Format.TABLE, is_watched)


def questions(prompt: Prompt, *lines: str | None) -> list[str]:
    given: Iterator[str | None] = iter(lines)
    found: list[str] = []
    while (question := prompt.next_question(given)) is not None:
        found.append(question)
    return found


def test_a_question_ends_with_a_semicolon_however_many_lines_it_has(home: Path) -> None:
    assert questions(prompt(home), "", "SELECT 1;", "SELECT", "", "  2 ; ", "SELECT 3") == ["SELECT 1;", "SELECT\n\n  2 ; "]


def test_ctrl_c_leaves_the_question_and_q_the_prompt(home: Path) -> None:
    assert questions(prompt(home), "SELECT", None, "SELECT 1;", "\\q", "SELECT 2;") == ["SELECT 1;"]


def test_a_pipe_may_forget_the_last_semicolon(home: Path) -> None:
    assert questions(prompt(home, is_watched=False), "SELECT 1") == ["SELECT 1"]


def test_d_shows_the_tables_and_the_columns_of_one(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert questions(prompt(home), "\\d", "\\d events") == []

    shown = capsys.readouterr().out
    assert re.search(r"^events +does not exist yet", shown, flags=re.M)
    assert "The raw body, byte for byte as it was sent" in shown


def test_a_wrong_name_is_told_and_from_a_pipe_it_is_the_end(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert questions(prompt(home), "\\d nothing") == []
    assert "there is no table 'nothing': there are events" in capsys.readouterr().err

    with pytest.raises(ConfigError, match="there is no table"):
        questions(prompt(home, is_watched=False), "\\d nothing")


def test_f_changes_the_format_and_what_is_unknown_shows_the_help(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    asking = prompt(home)

    assert questions(asking, "\\f csv", "\\f parquet", "\\x") == []

    assert asking.form is Format.CSV
    assert capsys.readouterr().out.count("\\q leaves") == 2


def test_what_was_typed_is_remembered_for_its_owner_only(home: Path) -> None:
    path = remembered(home / "run" / "sql_history")

    assert stat.S_IMODE(path.stat().st_mode) == 0o600
