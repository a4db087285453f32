from __future__ import annotations

import json
from pathlib import Path

import pytest

from infra.running.last_words import choose, last_words

ERROR = json.dumps({"event": "the driver's JVM is dead", "level": "error", "reason": "exit code -9"})
WARNING = json.dumps({"event": "the log is not there yet", "level": "warning"})
INFO = json.dumps({"event": "started", "level": "info"})
JVM = json.dumps({"ts": "now", "level": "ERROR", "msg": "no such master"})
SEPARATOR = "-" * 40


@pytest.mark.parametrize(
    ("lines", "reason"),
    [
        ([ERROR, "hooklake: a setting is wrong", "Traceback", SEPARATOR], "a setting is wrong"),
        ([ERROR, "Exception occurred during processing", SEPARATOR], "the driver's JVM is dead: exit code -9"),
        ([INFO, JVM, SEPARATOR], "no such master"),
        ([WARNING, "Traceback (most recent call last):", "ValueError: no", "", SEPARATOR], "ValueError: no"),
        ([WARNING, INFO, SEPARATOR, "{broken"], "the log is not there yet"),
        ([INFO, SEPARATOR, "[]"], ""),
    ],
)
def test_the_reason_is_what_a_person_would_pick(lines: list[str], reason: str) -> None:
    assert choose(lines) == reason


def test_only_what_the_child_wrote_since_its_start_counts(tmp_path: Path) -> None:
    log = tmp_path / "child.log"
    log.write_text("hooklake: an earlier end\n")
    offset = log.stat().st_size
    with log.open("a") as file:
        file.write(WARNING + "\n")

    assert last_words(log, offset=offset) == "the log is not there yet"
    assert last_words(tmp_path / "missing.log", offset=0) == ""
