from __future__ import annotations

from dataclasses import replace

from analytics.plan import Range, from_json, grouped, lightened, pieces, plan, shares, to_json
from infra.streams.positions import Position, StreamName
from infra.streams.ranges import StreamEnd

STREAM = StreamName(2, "default")


def at(entry_id: str, sequence: int, *, incarnation: str = "a") -> Position:
    return Position(incarnation, entry_id, sequence)


def a_range(entries: int, *, shard: int = 0) -> Range:
    return Range(StreamName(shard, "default"), at("0-0", 0), at("9-0", entries))


def test_a_stream_with_new_entries_is_read_from_its_position_to_its_end() -> None:
    planned = plan([StreamEnd(STREAM, at("20-0", 7))], archived={STREAM: at("10-0", 4)})

    assert planned == [Range(STREAM, at("10-0", 4), at("20-0", 7))]
    assert planned[0].entries == 3


def test_a_stream_that_was_never_archived_is_read_from_its_beginning() -> None:
    assert plan([StreamEnd(STREAM, at("20-0", 7))], archived={}) == [Range(STREAM, at("0-0", 0), at("20-0", 7))]


def test_a_stream_with_nothing_new_has_no_range() -> None:
    assert plan([StreamEnd(STREAM, at("20-0", 7))], archived={STREAM: at("20-0", 7)}) == []
    assert plan([StreamEnd(STREAM, at("0-0", 0))], archived={}) == []


def test_a_stream_that_vanished_with_open_numbers_has_a_range_with_nothing_to_read() -> None:
    planned = plan([StreamEnd(STREAM, at("0-0", 7))], archived={STREAM: at("20-0", 4)}, open_streams=[STREAM])

    assert planned == [Range(STREAM, at("20-0", 4), at("20-0", 7))]


def test_entry_ids_are_compared_as_numbers() -> None:
    assert plan([StreamEnd(STREAM, at("10-0", 2))], archived={STREAM: at("9-0", 1)})[0].after.entry_id == "9-0"
    assert plan([StreamEnd(STREAM, at("9-0", 1))], archived={STREAM: at("10-0", 2)}) == []


def test_a_new_incarnation_is_read_from_the_beginning_and_rechecked() -> None:
    planned = plan([StreamEnd(STREAM, at("5-0", 1, incarnation="b"))], archived={STREAM: at("10-0", 4)})

    assert planned == [Range(STREAM, at("0-0", 0, incarnation="b"), at("5-0", 1, incarnation="b"), recheck=True)]


def test_short_ranges_leave_their_share_to_long_ones() -> None:
    assert shares([a_range(10), a_range(1000), a_range(50)], cap=100) == [10, 45, 45]
    assert shares([a_range(10), a_range(20)], cap=100) == [10, 20]


def test_every_range_gets_at_least_one_entry() -> None:
    assert shares([a_range(5), a_range(5), a_range(5)], cap=1) == [1, 1, 1]


def test_large_entries_are_fewer_to_a_batch_and_at_least_one() -> None:
    assert lightened([100, 50], average_bytes=[10, 20], cap_bytes=2000) == [100, 50]
    assert lightened([100, 50], average_bytes=[100, 20], cap_bytes=5500) == [50, 25]
    assert lightened([10], average_bytes=[8_000_000], cap_bytes=100) == [1]


def test_a_small_batch_is_one_task_and_a_large_one_is_dealt_out_evenly() -> None:
    small = [a_range(10, shard=shard) for shard in range(4)]
    large = [a_range(entries, shard=shard) for shard, entries in enumerate((20_000, 9_000, 8_000, 1_000))]

    assert len(grouped(small, tasks=2)) == 1
    assert [sum(one.entries for one in group) for group in grouped(large, tasks=2)] == [20_000, 18_000]
    assert grouped([], tasks=2) == [[]]


def test_a_large_range_is_cut_so_that_all_tasks_have_as_much_to_read() -> None:
    assert pieces([a_range(40_000), a_range(1_000)], tasks=4) == [4, 1]
    assert pieces([a_range(9_000)], tasks=4) == [2]
    assert pieces([a_range(100), a_range(100)], tasks=4) == [1, 1]
    assert pieces([replace(a_range(40_000), recheck=True)], tasks=4) == [1]
    assert pieces([], tasks=4) == []


def test_ranges_survive_the_way_to_a_reader() -> None:
    groups = [[a_range(3), Range(STREAM, at("1-0", 1), at("2-0", 2), recheck=True, cut=True)], []]

    assert from_json(to_json(groups)) == groups
