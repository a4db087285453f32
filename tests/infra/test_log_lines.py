from __future__ import annotations

import io
import json
import logging
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from infra.log_lines import give_back_library_logs, open_log, render, take_over_library_logs


def lines_of(text: str) -> list[dict[str, object]]:
    return [json.loads(line) for line in text.splitlines()]


@given(st.dictionaries(st.text(), st.text() | st.binary() | st.none() | st.floats()))
def test_no_value_can_break_or_forge_a_line(fields: dict[str, object]) -> None:
    line = render(None, "info", dict(fields))

    assert len(line.splitlines()) <= 1
    assert line.isprintable()
    assert set(json.loads(line)) == set(fields)


def test_fields_cannot_pass_for_the_service_or_the_level(capsys: pytest.CaptureFixture[str]) -> None:
    log = open_log("ingest", level="info", trace_ids=dict)

    log.info("event accepted", service="worker", level="error", timestamp="never")

    (line,) = lines_of(capsys.readouterr().err)
    assert (line["service"], line["level"]) == ("ingest", "info")
    assert line["timestamp"] != "never"


def test_lines_below_the_level_are_not_written(capsys: pytest.CaptureFixture[str]) -> None:
    log = open_log("ingest", level="warning", trace_ids=dict)

    log.info("not this")
    log.warning("but this")

    assert [line["event"] for line in lines_of(capsys.readouterr().err)] == ["but this"]


@pytest.mark.parametrize("value", [{1: {2: 3}}, {("a", "b"): 1}, object()])
def test_values_that_are_no_json_are_shown_all_the_same(value: object, capsys: pytest.CaptureFixture[str]) -> None:
    open_log("ingest", level="info", trace_ids=dict).info("odd", value=value)

    assert lines_of(capsys.readouterr().err)[0]["event"] in ("odd", "'odd'")


def test_a_stderr_that_cannot_be_written_costs_the_line_only(monkeypatch: pytest.MonkeyPatch) -> None:
    log = open_log("ingest", level="info", trace_ids=dict)
    closed = io.StringIO()
    closed.close()

    monkeypatch.setattr(sys, "stderr", closed)
    log.info("nobody hears")
    with Path("/dev/full").open("w") as full:
        monkeypatch.setattr(sys, "stderr", full)
        log.info("nobody hears")
        monkeypatch.undo()
        with pytest.raises(OSError, match="No space"):
            full.close()


def test_library_messages_become_lines_and_the_same_complaint_is_heard_once(capsys: pytest.CaptureFixture[str]) -> None:
    taken = take_over_library_logs(open_log("ingest", level="info", trace_ids=dict))

    for number in range(100):
        logging.getLogger("exporter").warning("batch %d failed\nforged", number)
    # pytest's own handler would raise for this one, so it goes to ours directly.
    taken.emit(logging.LogRecord("exporter", logging.WARNING, __file__, 1, "%d and %d", (1,), None))
    give_back_library_logs(taken)

    lines = lines_of(capsys.readouterr().err)
    assert [(line["event"], line["logger"], line["text"]) for line in lines] == [
        ("library message", "exporter", "batch 0 failed\nforged"),
        ("library message", "exporter", "%d and %d"),
    ]


def test_a_second_take_over_replaces_the_first() -> None:
    first = take_over_library_logs(open_log("a", level="info", trace_ids=dict))
    second = take_over_library_logs(open_log("b", level="info", trace_ids=dict))

    assert first not in logging.getLogger().handlers
    give_back_library_logs(second)
