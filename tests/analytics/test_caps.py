from __future__ import annotations

from pathlib import Path

import pytest

from analytics.caps import STEP_AFTER, Caps, Failures
from analytics.settings import ArchiveSettings
from schemas.errors import StreamUnavailable, TableUnavailable

SETTINGS = ArchiveSettings(max_batch_entries=1000, max_batch_bytes=8000)


def fail(failures: Failures, *, error: Exception) -> None:
    with pytest.raises(type(error)), failures.counted():
        raise error


def end(failures: Failures, *, times: int) -> None:
    for _ in range(times):
        with failures.counted():
            pass


def test_a_batch_that_failed_is_tried_again_with_half_of_it(home: Path) -> None:
    failures = Failures.remembered(home=home)
    assert failures.caps(SETTINGS) == Caps(1000, 8000)

    fail(failures, error=TableUnavailable("full"))
    fail(failures, error=TableUnavailable("full"))

    assert failures.caps(SETTINGS) == Caps(250, 2000)


def test_a_run_that_died_in_its_batch_is_remembered_by_the_next(home: Path) -> None:
    dying = Failures.remembered(home=home)
    with dying.counted():
        found = Failures.remembered(home=home)  # as another process sees it, when this one is no more

    assert found.caps(SETTINGS) == Caps(500, 4000)


def test_after_many_failures_a_batch_has_one_entry(home: Path) -> None:
    failures = Failures.remembered(home=home)

    for _ in range(60):
        fail(failures, error=TableUnavailable("full"))

    assert failures.caps(SETTINGS) == Caps(1, 1)


def test_the_caps_grow_back_step_by_step(home: Path) -> None:
    failures = Failures.remembered(home=home)
    fail(failures, error=TableUnavailable("full"))
    fail(failures, error=TableUnavailable("full"))

    end(failures, times=STEP_AFTER)
    assert failures.caps(SETTINGS) == Caps(500, 4000)
    end(failures, times=STEP_AFTER)

    assert failures.caps(SETTINGS) == Caps(1000, 8000)
    assert not failures.path.exists()


def test_a_log_that_went_away_is_no_failure_of_the_batch(home: Path) -> None:
    failures = Failures.remembered(home=home)

    fail(failures, error=StreamUnavailable("away"))

    assert failures.caps(SETTINGS) == Caps(1000, 8000)


def test_a_file_that_makes_no_sense_is_no_failure(home: Path) -> None:
    failures = Failures.remembered(home=home)
    failures.path.parent.mkdir()
    failures.path.write_text("\x00\x00")

    assert Failures.remembered(home=home).caps(SETTINGS) == Caps(1000, 8000)
