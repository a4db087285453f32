from __future__ import annotations

from dataclasses import replace

import pytest

from tests.faults.checker import Accepted, Row, faults, first_ids

SENT = [Accepted(f"e{n}", f"d{n}", f"sha{n}") for n in (1, 2, 3)]
ROWS = [Row(f"e{n}", f"d{n}", f"sha{n}", f"sha{n}", "0:default", "inc", n) for n in (1, 2, 3)]


def test_a_faithful_table_has_no_fault() -> None:
    assert faults([*SENT, SENT[0]], rows=ROWS) == []


@pytest.mark.parametrize(
    ("rows", "fault"),
    [
        (ROWS[:2], "e3 was answered 202 and is not in the table"),
        ([*ROWS, replace(ROWS[0], sequence=4)], "e1 has 2 rows"),
        ([*ROWS, replace(ROWS[0], event_id="e9", sequence=4)], "d1 has 2 rows"),
        ([*ROWS[:2], replace(ROWS[2], actual_sha256="other")], "the body of e3 is not what was sent"),
        ([*ROWS[:2], replace(ROWS[2], body_sha256="other", actual_sha256="other")], "the body of e3 is not what was sent"),
        ([*ROWS, Row("e9", "d9", "s", "s", "1:default", "inc", 1)], "e9 is in the table, and nobody sent it"),
        ([ROWS[0], ROWS[1], replace(ROWS[2], sequence=4)], "stream 0:default in incarnation inc has not the numbers 1 to 3"),
    ],
)
def test_the_checker_sees_each_fault(rows: list[Row], fault: str) -> None:
    assert fault in faults(SENT, rows=rows)


def test_an_alias_is_looked_for_under_the_first_id() -> None:
    given, first = Accepted("given", "d", "sha"), Accepted("first", "d", "sha")

    assert first_ids([given, first], aliases={"given": "first"}) == [first, first]
