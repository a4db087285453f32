"""Questions to a Spark that others use: through Spark Connect, with a token, under the rules of the allow-list."""

from __future__ import annotations

import http.client
import stat
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from analytics.admission import taking_questions
from analytics.catalog import Lake
from analytics.commits import Commit, CommittedTable
from analytics.connect import Endpoint
from analytics.questions import Limits, Question
from analytics.reaching import LONGEST_QUESTION_BYTES, Door, ThroughArchive, archive_that_takes, connected
from analytics.settings import ArchiveSettings
from analytics.tables import EVENTS
from analytics.transforms import to_events
from infra.settings import TelemetrySettings
from infra.telemetry import Telemetry
from schemas.errors import ConfigError, QueryCancelled
from tests.analytics.statements import ATTACKS, QUESTIONS
from tests.analytics.test_transforms import raw
from tests.infra.running.processes import until


@pytest.fixture(scope="module")
def lake(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Lake:
    """A home with one archived event."""
    lake = Lake(ArchiveSettings(connect_port=0), tmp_path_factory.mktemp("asked"))
    table = CommittedTable(spark, table=EVENTS, location=lake.location(EVENTS))
    rows = to_events(raw(spark, {"body": b'{"a": 1}'}), batch=1, archived_at=datetime.now(UTC))
    table.append(rows, commit=Commit("run", "events", 1, {}, read=1))
    return lake


@pytest.fixture(scope="module")
def endpoint(spark: SparkSession, lake: Lake) -> Iterator[Endpoint]:
    telemetry = Telemetry.start("archive", TelemetrySettings(), home=lake.home)
    with taking_questions(spark, lake=lake, telemetry=telemetry) as opened:
        yield opened
    telemetry.shutdown()


@pytest.fixture(scope="module")
def archive(endpoint: Endpoint, lake: Lake) -> Iterator[ThroughArchive]:
    found = archive_that_takes("SELECT 1", home=lake.home)
    assert found is not None
    yield found
    found.close()


@pytest.mark.parametrize("sql", QUESTIONS)
def test_a_question_is_answered(archive: ThroughArchive, sql: str) -> None:
    assert len(archive.answer(Question(sql)).rows) >= 1


@pytest.mark.parametrize("sql", ATTACKS)
def test_what_is_more_than_a_question_does_not_get_through(archive: ThroughArchive, sql: str) -> None:
    with pytest.raises(ConfigError):
        archive.answer(Question(sql))


def test_bytes_times_and_variants_come_through(archive: ThroughArchive) -> None:
    answer = archive.answer(Question("SELECT id, body, payload, headers FROM events WHERE id = 'one'"))

    (row,) = answer.rows
    assert (row.id, bytes(row.body), row.headers) == ("one", b'{"a": 1}', {"x-github-event": "push"})
    assert row.payload.toPython() == {"a": 1}


def test_rows_and_bytes_are_limited_and_it_says_so(archive: ThroughArchive) -> None:
    sql = "SELECT id, repeat('x', 100) AS text FROM range(100000)"

    by_rows = archive.answer(Question(sql, limits=Limits(rows=7)))
    by_bytes = archive.answer(Question(sql, limits=Limits(rows=100_000, size_bytes=1000)))

    assert (len(by_rows.rows), "Use --limit" in by_rows.more) == (7, True)
    assert 0 < len(by_bytes.rows) < 10
    assert "Use --max-bytes" in by_bytes.more


def test_a_question_that_takes_too_long_is_cancelled_where_it_runs(archive: ThroughArchive, spark: SparkSession) -> None:
    with pytest.raises(QueryCancelled, match="did not end within 2 s"):
        archive.answer(Question("SELECT count(*) FROM range(1000000000000)", limits=Limits(timeout_s=2)))

    tracker = spark.sparkContext.statusTracker()
    until(lambda: not tracker.getActiveJobsIds(), what="its jobs have ended")
    assert len(archive.answer(Question("SELECT 1")).rows) == 1


def test_only_who_may_read_the_home_has_the_token(endpoint: Endpoint, lake: Lake) -> None:
    file = lake.home / "run" / "connect"

    assert file.read_text() == f"sc://localhost:{endpoint.port}/;token={endpoint.token}\n"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert stat.S_IMODE((lake.home / "run").stat().st_mode) == 0o700


@pytest.mark.parametrize("token", ["", ";token=guessed"])
def test_spark_connect_answers_nobody_without_the_token(endpoint: Endpoint, token: str) -> None:
    stranger = connected(f"sc://localhost:{endpoint.port}/{token}")

    with pytest.raises(PySparkException, match=r"(?i)unauthenticated|token"):
        stranger.sql("SELECT 1").collect()


@pytest.mark.parametrize(("token", "status"), [("guessed", 401), ("", 401), (None, 422)])
def test_questions_are_looked_at_for_nobody_without_the_token(endpoint: Endpoint, lake: Lake, token: str | None, status: int) -> None:
    door = Door.found(lake.home)
    assert door is not None

    assert asked_of(door, token=endpoint.token if token is None else token, body=b"{}") == status


@pytest.mark.parametrize("body", [b"", b"{", b'{"session": "x", "sql": "SELECT 1"}', b"[]"])
def test_what_is_no_question_is_refused(endpoint: Endpoint, lake: Lake, body: bytes) -> None:
    door = Door.found(lake.home)
    assert door is not None

    assert asked_of(door, token=endpoint.token, body=body) == 422


def test_a_statement_that_is_too_long_is_refused_before_it_is_sent(archive: ThroughArchive) -> None:
    with pytest.raises(ConfigError, match="the most is"):
        archive.admit("SELECT '" + "x" * LONGEST_QUESTION_BYTES + "'")


def asked_of(door: Door, *, token: str, body: bytes) -> int:
    connection = http.client.HTTPConnection(door.questions, timeout=20)
    try:
        connection.request("POST", "/", body, {"Authorization": f"Bearer {token}"})
        return connection.getresponse().status
    finally:
        connection.close()


def test_a_notebook_reads_the_tables_by_name_and_cannot_write_to_them_by_name(endpoint: Endpoint) -> None:
    notebook = connected(endpoint.address)
    until(lambda: notebook.catalog.tableExists("events"), what="the table has its name")

    assert [row.id for row in notebook.table("events").select("id").collect()] == ["one"]
    with pytest.raises(PySparkException):
        notebook.sql("DELETE FROM events").collect()
    assert notebook.table("events").count() == 1
    notebook.stop()


def test_an_archive_that_was_killed_is_not_waited_for(tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "connect").write_text("sc://localhost:1/;token=x\n")
    (tmp_path / "run" / "questions").write_text("127.0.0.1:1\n")

    assert archive_that_takes("SELECT 1", home=tmp_path) is None
