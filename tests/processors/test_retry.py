from __future__ import annotations

import pytest

from processors import Reject, Retry
from processors.retry import NoMore, RetryIn, RetryPolicy, attempt_number, next_step

FAILURE = ValueError("no")


def test_the_default_schedule_is_at_once_then_one_then_two_seconds_then_never() -> None:
    steps = [next_step(FAILURE, attempt=attempt, policy=RetryPolicy()) for attempt in (1, 2, 3, 4)]

    assert steps == [RetryIn(0), RetryIn(1000), RetryIn(2000), NoMore("failed 4 times: ValueError: no")]


def test_the_last_delay_repeats() -> None:
    assert RetryPolicy(max_attempts=9, delays_ms=(0, 50)).delay_ms_after(7) == 50
    assert RetryPolicy(max_attempts=9, delays_ms=()).delay_ms_after(7) == 0


def test_a_reject_is_final_at_the_first_attempt() -> None:
    assert next_step(Reject("bad data"), attempt=1, policy=RetryPolicy()) == NoMore("rejected: bad data")


def test_a_retry_may_choose_its_delay_but_not_its_number() -> None:
    assert next_step(Retry(after_ms=70), attempt=1, policy=RetryPolicy()) == RetryIn(70)
    assert next_step(Retry(), attempt=2, policy=RetryPolicy()) == RetryIn(1000)
    assert isinstance(next_step(Retry(after_ms=70), attempt=4, policy=RetryPolicy()), NoMore)


@pytest.mark.parametrize(
    ("retry_count", "delivery_count", "attempt"),
    [(0, 1, 1), (0, 2, 1), (0, 3, 2), (1, 1, 2), (1, 2, 2), (3, 4, 6)],
)
def test_a_first_redelivery_is_forgiven_and_further_ones_count(retry_count: int, delivery_count: int, attempt: int) -> None:
    assert attempt_number(retry_count=retry_count, delivery_count=delivery_count) == attempt
