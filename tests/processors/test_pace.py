from __future__ import annotations

from processors.pace import HURRIED_S, READ_BYTES, SMALL_STEP, Pace


def steady(pace: Pace, *, per_second: int, seconds: float = 5.0) -> float:
    """Settles at an even rate, twenty times a second; returns when it ended."""
    now = 0.0
    while now < seconds:
        now += 0.05
        pace.settled(round(per_second * 0.05), now=now)
    return now


def test_a_worker_that_has_settled_nothing_yet_takes_as_many_as_run_at_once() -> None:
    assert Pace(least=32, most=256).batch(now=0.0) == 32


def test_a_quick_worker_takes_whole_batches() -> None:
    pace = Pace(least=32, most=256)

    now = steady(pace, per_second=20_000)

    assert pace.batch(now=now) == 256
    assert pace.is_quick(now=now)
    assert not pace.is_quick(now=now + 10)


def test_while_urgent_events_come_everything_else_is_taken_in_small_steps() -> None:
    pace = Pace(least=100, most=256)
    now = steady(pace, per_second=20_000)

    pace.hurry(now=now)

    assert pace.batch(now=now + 0.1) == SMALL_STEP
    assert pace.batch(now=now + HURRIED_S + 0.1) == 256
    assert Pace(least=8, most=32).batch(now=0.0) == 8


def test_a_slow_worker_leaves_to_others_what_it_would_hold_for_long() -> None:
    pace = Pace(least=8, most=256)

    now = steady(pace, per_second=200)

    assert 30 <= pace.batch(now=now) <= 50
    assert not pace.is_quick(now=now)
    assert pace.batch(now=now + 10) == 8


def test_large_bodies_make_small_reads() -> None:
    pace = Pace(least=32, most=256)
    now = steady(pace, per_second=20_000)

    pace.read(10, body_bytes=10 * 1_000_000)

    assert pace.batch(now=now) == READ_BYTES // 1_000_000


def test_a_body_beyond_any_budget_is_read_alone() -> None:
    pace = Pace(least=32, most=256)

    pace.read(1, body_bytes=50 * READ_BYTES)

    assert pace.batch(now=0.0) == 1


def test_never_more_than_the_settings_allow() -> None:
    assert Pace(least=32, most=7).batch(now=0.0) == 7
