from __future__ import annotations

from datetime import date

from analytics.lives import Life, Met
from analytics.plan import Range
from analytics.survey import Survey, oldest_date
from infra.streams.entries import Entry
from infra.streams.positions import Position, StreamName

STREAM = StreamName(0, "default")
DAY_MS = 86_400_000


def entry(number: int, *, incarnation: str, entry_id: str | None = None) -> Entry:
    fields = {b"incarnation": incarnation.encode(), b"sequence": b"%d" % number, b"timestamp": b"%d" % (20_000 * DAY_MS)}
    return Entry(entry_id or f"{20_000 * DAY_MS}-{number}", fields)


def surveyed(*entries: Entry, lives: dict[str, Life]) -> Survey:
    found = Survey(Range(STREAM, Position("new", "0-0", 0), Position("new", "9-0", 9), recheck=True), lives)
    for one in entries:
        found.add(one)
    return found


def test_of_each_incarnation_the_numbers_beyond_the_archived_one_are_met() -> None:
    lives = {"old": Life("5-0", archived=5, given=8), "new": Life(given=9)}

    found = surveyed(*(entry(number, incarnation="old") for number in (4, 5, 7, 8)), entry(1, incarnation="new"), lives=lives)

    assert (found.read, found.foreign) == (5, 0)
    assert found.met == {
        "old": Met(2, Position("old", f"{20_000 * DAY_MS}-8", 8)),
        "new": Met(1, Position("new", f"{20_000 * DAY_MS}-1", 1)),
    }


def test_entries_to_which_the_log_gave_no_number_are_foreign() -> None:
    strange = [Entry(f"{19_999 * DAY_MS}-0", {b"foreign": b"\xff"}), entry(10, incarnation="new"), entry(1, incarnation="unknown")]

    found = surveyed(*strange, lives={"new": Life(given=9)})

    assert (found.read, found.foreign, found.met) == (3, 3, {})


def test_a_range_that_is_cut_at_a_foreign_entry_has_the_number_before_it() -> None:
    foreign = Entry("5-0", {b"foreign": b"x"})
    found = surveyed(entry(1, incarnation="new"), entry(2, incarnation="new"), foreign, lives={"new": Life(given=9)})

    found.cut_at(foreign)

    assert (found.range.to, found.range.cut) == (Position("new", "5-0", 2), True)


def test_the_oldest_date_is_that_of_the_oldest_entry() -> None:
    assert oldest_date([surveyed(entry(1, incarnation="new"), lives={}), surveyed(lives={})]) == date(2024, 10, 4)


def test_an_entry_id_that_is_no_time_makes_no_date() -> None:
    found = surveyed(Entry("18446744073709551000-0", {b"foreign": b"x"}), lives={})

    assert oldest_date([found]) == date(2100, 1, 1)
