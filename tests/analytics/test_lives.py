from __future__ import annotations

from analytics.lives import Life, Met, after, expired, open_streams, seen, uncounted, with_acknowledged
from analytics.plan import Range
from infra.streams.positions import Position, StreamName
from infra.streams.ranges import Look, StreamEnd

STREAM = StreamName(0, "default")
NOW = 5000


def a_range(*, after: int, to: int, cut: bool = False) -> Range:
    return Range(STREAM, Position("new", f"{after}-0", after), Position("new", f"{to}-0", to), recheck=True, cut=cut)


def an_end(**given: int) -> StreamEnd:
    return StreamEnd(STREAM, Position("new", "9-0", given.get("new", 0)), given)


def met(number: int, *, entries: int, incarnation: str = "old") -> Met:
    return Met(entries, Position(incarnation, f"{number}-0", number))


def test_numbers_that_a_range_of_the_present_incarnation_lacks_are_lost() -> None:
    lives, lost = after({"new": Life("3-0", 3, 10)}, one=a_range(after=3, to=10), met={"new": met(8, entries=4)}, now_ms=NOW)

    assert (lives, lost) == ({"new": Life("10-0", 10, 10)}, 3)


def test_what_is_left_of_a_past_incarnation_that_was_read_to_its_end_is_lost() -> None:
    known = {"old": Life("5-0", 5, 12)}

    lives, lost = after(known, one=a_range(after=0, to=1), met={"old": met(9, entries=3), "new": met(1, entries=1)}, now_ms=NOW)

    assert (lives["old"], lost) == (Life("9-0", 12, 12, NOW), 1 + 3)


def test_an_incarnation_of_which_no_entry_is_left_is_lost_whole() -> None:
    lives, lost = after({"old": Life("5-0", 5, 12), "middle": Life(given=6)}, one=a_range(after=0, to=0), met={}, now_ms=NOW)

    assert lost == 7 + 6
    assert (lives["old"].archived, lives["middle"].archived) == (12, 6)


def test_a_past_incarnation_that_is_cut_is_counted_as_far_as_it_was_read() -> None:
    known = {"old": Life("5-0", 5, 12)}

    lives, lost = after(known, one=a_range(after=0, to=0, cut=True), met={"old": met(8, entries=2)}, now_ms=NOW)

    assert (lives["old"], lost) == (Life("8-0", 8, 12), 1)
    assert open_streams({STREAM: lives}) == [STREAM]


def test_an_incarnation_is_counted_once() -> None:
    known = {"old": Life("5-0", 12, 12, 1000), "new": Life("3-0", 3, 3)}

    lives, lost = after(known, one=a_range(after=3, to=4), met={"new": met(4, entries=1)}, now_ms=NOW)

    assert (lives["old"], lost) == (known["old"], 0)


def test_incarnations_that_only_the_ledger_knows_are_seen_and_long_past_ones_are_forgotten() -> None:
    known = {STREAM: {"gone": Life("5-0", 5, 5, ended_ms=10), "kept": Life("5-0", 5, 5, ended_ms=10), "old": Life("1-0", 1, 1)}}

    found = seen(known, ends=[an_end(kept=5, middle=6, new=2)], forgotten_before_ms=11)

    assert found == {STREAM: {"kept": known[STREAM]["kept"], "old": Life("1-0", 1, 1), "middle": Life(given=6), "new": Life(given=2)}}
    assert expired(known, before_ms=11) == [(STREAM, "gone"), (STREAM, "kept")]


def test_a_ledger_that_counts_on_has_lost_nothing() -> None:
    known = {STREAM: {"old": Life("5-0", 5, 5)}}

    assert uncounted(Look([an_end(old=5, new=3)], {0: 8}), known=known, accepted={0: 5}) == 0
    assert uncounted(Look([an_end(new=3)], {0: 3}), known={}, accepted={}) == 0


def test_a_ledger_that_was_wiped_counts_less_than_it_did() -> None:
    known = {STREAM: {"old": Life("5-0", 5, 5)}}

    assert uncounted(Look([an_end(new=3)], {0: 3}), known=known, accepted={0: 5}) == 5


def test_a_ledger_that_went_back_counts_less_by_as_much() -> None:
    known = {STREAM: {"old": Life("5-0", 5, 5)}}

    assert uncounted(Look([an_end(old=3, new=4)], {0: 7}), known=known, accepted={0: 5}) == 2


def test_numbers_that_receivers_were_given_count_for_past_incarnations_that_somebody_has_seen() -> None:
    end = StreamEnd(STREAM, Position("new", "9-0", 2), given={"new": 2, "old": 90})
    key = (STREAM.shard, STREAM.name)
    highest = {(*key, "old"): 100, (*key, "older"): 7, (*key, "new"): 5, (*key, "thrown away"): 50}

    (seen_end,) = with_acknowledged(Look([end], {0: 92}), known={STREAM: {"older": Life(archived=4, given=4)}}, highest=highest).ends

    assert seen_end.given == {"new": 2, "old": 100, "older": 7}
