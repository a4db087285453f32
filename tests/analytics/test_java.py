from __future__ import annotations

from pathlib import Path

import pytest

from analytics.java import find_java, major_version
from schemas.errors import ConfigError


@pytest.mark.parametrize(
    ("output", "major"),
    [
        ('openjdk version "17.0.15" 2025-04-15', 17),
        ('java version "1.8.0_292"', 8),
        ('WARNING: Using incubator modules\nopenjdk version "21" 2023-09-19', 21),
        ("bash: java: command not found", None),
    ],
)
def test_the_version_is_read_from_what_java_says(output: str, major: int | None) -> None:
    assert major_version(output) == major


def test_a_java_that_fits_is_found() -> None:
    assert find_java().major >= 17


def test_without_java_one_sentence_says_what_to_install_and_what_still_runs(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"everything else does.*install openjdk-17"):
        find_java([tmp_path])
