from __future__ import annotations

import io
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

import orjson
import pytest
from pyspark.sql import SparkSession

from analytics.commits import Commit, CommittedTable
from analytics.formats import Format
from analytics.query import chosen_format, statement
from analytics.transforms import to_events
from infra.settings import FILE_NAME, environment_with
from schemas.errors import ConfigError
from tests.analytics.test_transforms import raw

ROOT = Path(__file__).parent.parent.parent


def query(home: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    (home / FILE_NAME).touch()
    command = [sys.executable, "-m", "analytics.query", *arguments]
    environment = environment_with({"HOOKLAKE_HOME": str(home), "TZ": "America/New_York"})
    return subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=200, check=False)


def test_without_a_table_the_answer_is_one_sentence_before_spark_is_started(home: Path) -> None:
    done = query(home, "SELECT * FROM events")

    assert (done.returncode, done.stdout) == (3, "")
    assert "there is no table `events` yet" in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_rows_are_printed_as_one_json_array_and_nothing_else_is(spark: SparkSession, events: CommittedTable, home: Path) -> None:
    rows = to_events(raw(spark, {"body": b'{"a": 1}'}, {"id": "two", "body": b"\xff"}), batch=1, archived_at=datetime.now(UTC))
    events.append(rows, commit=Commit("run", "events", 1, {}, read=2))

    done = query(home, "SELECT id, body, payload, received_at, headers FROM events ORDER BY id", "--json", "--limit", "1")

    assert done.returncode == 0
    assert orjson.loads(done.stdout) == [
        {
            "id": "one",
            "body": '{"a": 1}',
            "payload": {"a": 1},
            "received_at": "2026-02-28T23:59:59.999000+00:00",
            "headers": {"x-github-event": "push"},
        }
    ]
    assert done.stderr == "There are more rows; these are the first 1. Use --limit to see more.\n"


def test_a_query_comes_from_one_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "query.sql"
    file.write_text("SELECT 1;\n")
    monkeypatch.setattr(sys, "stdin", io.StringIO("SELECT 2"))

    assert statement("SELECT 0", file=None) == "SELECT 0"
    assert statement("", file=file) == "SELECT 1;\n"
    assert statement("-", file=None) == "SELECT 2"
    for sql, other in (("", None), ("SELECT 0", file), ("  ", None), ("", tmp_path / "no such file"), ("", tmp_path)):
        with pytest.raises(ConfigError):
            statement(sql, file=other)


def test_json_may_be_asked_for_in_two_ways_but_not_beside_another_format() -> None:
    assert chosen_format(None, as_array=False) is Format.TABLE
    assert chosen_format(None, as_array=True) is chosen_format(Format.JSON, as_array=True) is Format.JSON
    with pytest.raises(ConfigError, match="--json and --format csv"):
        chosen_format(Format.CSV, as_array=True)
