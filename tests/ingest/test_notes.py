"""Log lines about refused requests, with a clock that the test moves."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import structlog

from infra.clock import Clock
from ingest.notes import LINES_PER_SECOND, Notes
from schemas.errors import BadSignature, StreamUnavailable


@dataclass
class Seconds:
    now: float = 100.0
    lines: list[dict[str, Any]] = field(default_factory=list)

    def notes(self) -> Notes:
        def keep(_: object, method: str, fields: Any) -> Any:
            self.lines.append({"level": method, **fields})
            raise structlog.DropEvent

        log = structlog.wrap_logger(structlog.PrintLogger(), processors=[keep], wrapper_class=structlog.make_filtering_bound_logger(0))
        return Notes(log, clock=Clock(monotonic=lambda: self.now))


def test_a_flood_of_refusals_is_counted_instead_of_written() -> None:
    seconds = Seconds()
    notes = seconds.notes()

    for _ in range(1000):
        notes.refused(BadSignature("wrong"), path="/hooks/a/b", remote_address="::1")
    seconds.now += 1
    notes.refused(BadSignature("wrong"), path="/hooks/a/b", remote_address="::1")

    assert len(seconds.lines) == LINES_PER_SECOND + 1
    assert seconds.lines[-1]["unwritten_lines"] == 1000 - LINES_PER_SECOND


def test_one_kind_of_refusal_does_not_hide_another() -> None:
    seconds = Seconds()
    notes = seconds.notes()

    for _ in range(100):
        notes.refused(BadSignature("wrong"), path="/hooks/a/b", remote_address="::1")
    notes.refused(StreamUnavailable("down"), path="/hooks/a/b", remote_address="::1")

    assert (seconds.lines[-1]["code"], seconds.lines[-1]["level"]) == ("stream_unavailable", "warning")
