"""How many connections a process may hold."""

from __future__ import annotations

from infra.running.descriptors import RESERVED, connections_within


def test_as_many_as_wanted_where_the_system_allows_more() -> None:
    assert connections_within(1_000_000, open_files=20, wanted=500) == 500


def test_no_more_than_files_may_be_opened_less_those_that_are_needed() -> None:
    assert connections_within(1024, open_files=20, wanted=10_000) == 1024 - 20 - RESERVED


def test_at_least_one() -> None:
    assert connections_within(16, open_files=20, wanted=10_000) == 1
