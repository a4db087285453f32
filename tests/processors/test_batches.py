"""Whose failure the failure of a batch is."""

from __future__ import annotations

import pytest

from processors.batches import errors_of, halves, worst
from processors.signals import Reject, SomeFailed

ERROR = ValueError("x")


def test_a_call_that_returns_has_done_everything() -> None:
    assert errors_of(None, event_ids=["a", "b"]) == [None, None]


def test_whoever_fails_alone_has_failed() -> None:
    assert errors_of(ERROR, event_ids=["a"]) == [ERROR]


def test_a_failure_of_several_is_nobody_s_yet() -> None:
    assert errors_of(ERROR, event_ids=["a", "b"]) is None


def test_named_events_have_failed_and_the_others_are_done() -> None:
    assert errors_of(SomeFailed({"b": ERROR}), event_ids=["a", "b", "c"]) == [None, ERROR, None]


def test_names_of_other_events_say_nothing() -> None:
    assert errors_of(SomeFailed({"b": ERROR, "z": ERROR}), event_ids=["a", "b"]) is None


@pytest.mark.parametrize("errors", [{}, {"a": "a text"}])
def test_a_failure_without_errors_is_a_mistake(errors: dict[str, BaseException]) -> None:
    with pytest.raises(ValueError, match="names no event with its error"):
        SomeFailed(errors)


@pytest.mark.parametrize(
    ("errors", "is_failure"),
    [([None], False), ([ERROR], True), ([ERROR, None], False), ([ERROR, Reject("x")], False), ([ERROR, ERROR], True)],
)
def test_a_processor_that_did_or_judged_anything_works(errors: list[BaseException | None], is_failure: bool) -> None:
    assert (worst(errors) is not None) is is_failure


@pytest.mark.parametrize(("size", "sizes"), [(2, [1, 1]), (3, [2, 1]), (100, [50, 50])])
def test_halves_are_smaller_than_the_whole(size: int, sizes: list[int]) -> None:
    parts = halves(list(range(size)))

    assert [len(part) for part in parts] == sizes
    assert [item for part in parts for item in part] == list(range(size))
