from __future__ import annotations

from analytics.gold import in_partitions
from analytics.gold_commits import GoldCommit, from_metadata, to_metadata
from analytics.gold_news import counted_since, counters_of
from infra.streams.ledger import Counts


def test_a_commit_survives_the_way_through_the_table_s_log() -> None:
    commit = GoldCommit("run", "traffic_hourly", 7, {"events": 12}, {"demo:github": (3, 4)}, {"events": 20}, since="first")

    assert from_metadata(to_metadata(commit)) == commit


def test_what_others_commit_is_no_refresh() -> None:
    assert [from_metadata(text) for text in ("", "no json", "[]", '{"hooklake": 2}', '{"hooklake_gold": 2}')] == [None] * 5


def test_refusals_are_what_was_kept_aside_and_what_was_not() -> None:
    counts = Counts(duplicates={("a", "b"): 1}, quarantined={("a", "b"): 2}, unkept={("a", "c"): 3})

    assert counters_of(counts) == {"a:b": (1, 2), "a:c": (0, 3)}


def test_only_what_was_counted_since_is_new() -> None:
    assert counted_since({"a:b": (1, 2), "a:c": (5, 5)}, {"a:b": (4, 2), "a:c": (5, 5), "a:d": (0, 1)}) == {"a:b": (3, 0), "a:d": (0, 1)}


def test_all_that_a_wiped_ledger_counts_is_new() -> None:
    assert counted_since({"a:b": (10, 10)}, {"a:b": (2, 12)}) == {"a:b": (2, 2)}


def test_partitions_are_named_without_letting_them_speak() -> None:
    assert in_partitions("namespace", ["it's", "a\\b"]) == r"`namespace` IN ('a\\b', 'it\'s')"
