from __future__ import annotations

from datetime import date

from analytics.plan import Range
from analytics.survey import Survey, oldest_date
from infra.streams.entries import Entry
from infra.streams.positions import Position, StreamName

STREAM = StreamName(0, "default")
DAY_MS = 86_400_000


def entry(number: int, *, incarnation: str, entry_id: str | None = None) -> Entry:
    fields = {b"incarnation": incarnation.encode(), b"sequence": b"%d" % number, b"timestamp": b"%d" % (20_000 * DAY_MS)}
    return Entry(entry_id or f"{20_000 * DAY_MS}-{number}", fields)


def surveyed(*entries: Entry, archived: Position | None = None) -> Survey:
    found = Survey(Range(STREAM, Position("new", "0-0", 0), Position("new", "9-0", 9), recheck=True))
    for one in entries:
        found.add(one, archived=archived)
    return found


def test_entries_that_were_archived_before_the_restart_are_not_missing() -> None:
    archived = Position("old", "5-0", 5)

    found = surveyed(*(entry(number, incarnation="old") for number in (4, 5, 6, 7)), entry(1, incarnation="new"), archived=archived)

    assert found.read == 5
    assert found.missing(archived=archived) == 0


def test_numbers_that_the_log_gave_and_no_longer_has_are_counted() -> None:
    archived = Position("old", "5-0", 5)

    found = surveyed(entry(8, incarnation="old"), entry(3, incarnation="new"), archived=archived)

    assert found.missing(archived=archived) == 2 + 2


def test_a_past_incarnation_is_closed_at_its_last_entry() -> None:
    found = surveyed(entry(6, incarnation="old"), entry(7, incarnation="old"), entry(1, incarnation="new"))

    assert found.closed() == [(STREAM, Position("old", f"{20_000 * DAY_MS}-7", 7))]


def test_an_entry_without_numbers_is_read_and_counts_for_nothing() -> None:
    found = surveyed(Entry(f"{19_999 * DAY_MS}-0", {b"foreign": b"\xff"}))

    assert (found.read, found.missing(archived=None), found.closed()) == (1, 0, [])


def test_the_oldest_date_is_that_of_the_oldest_entry() -> None:
    assert oldest_date([surveyed(entry(1, incarnation="new")), surveyed()]) == date(2024, 10, 4)
