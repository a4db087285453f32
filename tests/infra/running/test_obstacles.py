from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from infra.running.obstacles import obstacle


@pytest.mark.parametrize(
    ("number", "path", "is_ours"),
    [
        (errno.EACCES, "/home/lake/log", True),
        (errno.EACCES, b"/home/lake/log", True),
        (errno.EACCES, "/home/other", False),
        (errno.ENOSPC, "/home/lake/log", False),
        (errno.EACCES, None, False),
    ],
)
def test_only_what_a_person_has_to_clear_away_under_the_home_is_an_obstacle(number: int, path: str | bytes | None, is_ours: bool) -> None:
    sentence = obstacle(OSError(number, os.strerror(number), path), home=Path("/home/lake"))

    assert bool(sentence) == is_ours
    assert not is_ours or sentence.startswith("HOOKLAKE_HOME: /home/lake/log cannot be used (Permission denied)")
