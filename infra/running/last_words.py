"""Owns the reason that a dead child is told with, out of what it wrote last. Reads the end of its log; the choice is pure."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

SENTENCE = "hooklake: "
LONGEST = 500
TAIL_BYTES = 65_536


def last_words(log_path: Path, *, offset: int) -> str:
    """Why the child ended, as far as its log tells from `offset` on; empty when it tells nothing."""
    with suppress(OSError), log_path.open("rb") as log:
        log.seek(max(offset, log_path.stat().st_size - TAIL_BYTES))
        return choose(log.read().decode(errors="replace").splitlines())[:LONGEST]
    return ""


def choose(lines: Sequence[str]) -> str:
    """The last sentence for people, else the last error that was logged, else the last line with a word in it, else a warning. Pure."""
    sentences = [line.removeprefix(SENTENCE) for line in lines if line.startswith(SENTENCE)]
    # Spark's shell and Python's own reports draw lines around what they say.
    plain = [line for line in lines if not line.startswith("{") and re.search(r"\w", line)]
    logged = [(level, text) for level, text in map(_logged, lines) if text]
    errors = [text for level, text in logged if level in ("error", "critical", "fatal")]
    warnings = [text for level, text in logged if level in ("warning", "warn")]
    return next((found[-1] for found in (sentences, errors, plain, warnings) if found), "")


def _logged(line: str) -> tuple[str, str]:
    """Level and text of a JSON line, ours or the JVM's; empty for any other line."""
    try:
        fields = json.loads(line) if line.startswith("{") else None
    except ValueError:
        return "", ""
    if not isinstance(fields, dict):
        return "", ""
    said, reason = fields.get("event") or fields.get("msg") or "", fields.get("reason") or ""
    return str(fields.get("level", "")).lower(), " ".join(f"{said}: {reason}".split()) if reason else " ".join(str(said).split())
