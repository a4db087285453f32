from __future__ import annotations

import pytest

from analytics.giving_back import Archived, pieces, portions, steps
from infra.streams.owed import OwedRange, parse_erased

FOREIGN = Archived("default", "2-0", "", 0, ["foreign", "entry"])


def test_entries_without_a_number_alone_are_given_back_and_nothing_is_missing() -> None:
    item = OwedRange("default", "", "1-0", "3-0", 0, 0)

    made = list(steps(portions([item], room=10), [FOREIGN]))

    assert [(step.less, step.missing, list(step.fields)) for step in made] == [(0, "", ["foreign", "entry"]), (0, "", [])]
    assert made[-1].after == ""


def test_erased_numbers_are_told_in_their_order_and_apart() -> None:
    said = {b"low|a|11": b"12", b"low|a|1": b"9", b"low|a|3": b"3", b"low|a|10": b"10", b"low|b|5": b"5", b"low|a|20": b"20"}

    assert parse_erased(said) == {("low", "a"): [(1, 12), (20, 20)], ("low", "b"): [(5, 5)]}


@pytest.mark.parametrize(
    ("erased", "expected"),
    [
        ([], [(9, False)]),
        ([(1, 4), (10, 20)], [(9, False)]),
        ([(5, 9)], [(9, True)]),
        ([(1, 99)], [(9, True)]),
        ([(2, 5), (8, 8)], [(5, True), (7, False), (8, True), (9, False)]),
        ([(1, 2), (6, 7), (9, 12)], [(5, False), (7, True), (8, False), (9, True)]),
    ],
)
def test_numbers_without_a_row_are_told_apart_by_whether_they_were_erased(
    erased: list[tuple[int, int]], expected: list[tuple[int, bool]]
) -> None:
    assert list(pieces(5, 9, erased=erased)) == expected
