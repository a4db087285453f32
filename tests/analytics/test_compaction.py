from __future__ import annotations

import pytest

from analytics.compaction import ON_SCHEDULE, SETTLED_MS, SMALL_BYTES, DataFile, predicate_of, worth_rewriting

NOW_MS = 10_000_000


def files(partition: str, *, count: int, size_bytes: int = 1, age_ms: int = SETTLED_MS) -> list[DataFile]:
    return [DataFile(partition, size_bytes, NOW_MS - age_ms)] * count


def test_a_partition_is_rewritten_when_it_has_many_small_files() -> None:
    found = files("d=2", count=ON_SCHEDULE) + files("d=1", count=ON_SCHEDULE) + files("d=3", count=ON_SCHEDULE - 1)

    assert worth_rewriting(found, now_ms=NOW_MS, by_hand=False) == ["d=1", "d=2"]
    assert worth_rewriting(found, now_ms=NOW_MS, by_hand=True) == ["d=1", "d=2", "d=3"]


def test_large_files_are_never_rewritten_again() -> None:
    found = files("d=1", count=100, size_bytes=SMALL_BYTES) + files("d=1", count=1)

    assert worth_rewriting(found, now_ms=NOW_MS, by_hand=True) == []


def test_files_of_the_last_minutes_do_not_make_their_partition_due() -> None:
    found = files("d=1", count=ON_SCHEDULE - 1) + files("d=1", count=100, age_ms=SETTLED_MS - 1)

    assert worth_rewriting(found, now_ms=NOW_MS, by_hand=False) == []


@pytest.mark.parametrize(
    ("partition", "predicate"),
    [
        ("", None),
        ("received_date=2026-01-31", "`received_date` = '2026-01-31'"),
        ("received_date=__HIVE_DEFAULT_PARTITION__", "`received_date` IS NULL"),
        ("a=x%20y/b=1", "`a` = 'x y' AND `b` = '1'"),
        ("a=x' OR 1", "`a` = 'x OR 1'"),
    ],
)
def test_a_partition_is_selected_by_what_its_directories_say(partition: str, predicate: str | None) -> None:
    assert predicate_of(partition) == predicate
