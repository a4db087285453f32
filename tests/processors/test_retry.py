from __future__ import annotations

import pytest

from processors import Reject, Retry
from processors.retry import Exponential, NoMore, RetryIn, RetryPolicy, attempt_number, fence_token, next_step

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


def test_exponential_waits_grow_up_to_their_cap() -> None:
    waits = Exponential(first_ms=100, factor=3, cap_ms=2000, jitter=0)

    assert [waits.delay_ms_after(attempt, chance=0.5) for attempt in (1, 2, 3, 4, 1000)] == [100, 300, 900, 2000, 2000]


@pytest.mark.fault("D8")
def test_jitter_spreads_waits_around_their_middle() -> None:
    waits = Exponential(first_ms=1000, jitter=0.2)

    assert [waits.delay_ms_after(1, chance=chance) for chance in (0, 0.5, 1)] == [800, 1000, 1200]
    assert 800 <= RetryPolicy(max_attempts=9, delays_ms=waits).delay_ms_after(1) <= 1200


def test_a_fence_token_grows_with_each_delivery() -> None:
    deliveries = [("5-0", 1), ("5-0", 2), ("6-0", 1), ("6-0", 5000), ("7-0", 1)]

    tokens = [fence_token(entry_id=entry_id, delivery_count=count) for entry_id, count in deliveries]

    assert tokens == sorted(set(tokens))
