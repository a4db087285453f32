from __future__ import annotations

import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from analytics.catalog import Lake
from analytics.commits import CommittedTable
from analytics.gold_processors import PROCESSORS, settled
from analytics.gold_tables import PROCESSORS_HOURLY
from analytics.opening import open_table
from analytics.questions import Question, admit, answer
from analytics.report import LIMITS
from analytics.report_data import Rows, find
from analytics.report_page import page_of
from analytics.settings import ArchiveSettings
from infra.settings import FILE_NAME, environment_with
from tests.analytics.conftest import OpenGold
from tests.analytics.test_gold import DRIFT_RECIPE, RECEIVED, TRAFFIC_RECIPE, archived, outcomes
from tests.documents import ROOT


def test_a_report_shows_what_the_gold_tables_have(spark: SparkSession, events: CommittedTable, open_gold: OpenGold, home: Path) -> None:
    gold, lake = open_gold(), Lake(ArchiveSettings(), home)
    archived(events, spark, {"id": "1", "body": b'{"a": 1}', "timestamp": 1772323199999 - 86_400_000}, batch=1)
    archived(events, spark, {"id": "2", "body": b'{"a": "x", "b": 1}'}, {"id": "3", "body": b"[]"}, batch=2)
    gold.refresh(TRAFFIC_RECIPE)
    gold.refresh(DRIFT_RECIPE)
    ran = outcomes(spark, ("0190aaaa-0000-7000-8000-000000000001", "g", "index", "dead_letter", RECEIVED, 7.0))
    open_table(spark, table=PROCESSORS_HOURLY, location=lake.location(PROCESSORS_HOURLY))
    PROCESSORS.merged(settled(ran)).write.format("delta").mode("append").save(lake.location(PROCESSORS_HOURLY))

    def ask(sql: str) -> Rows:
        session = spark.newSession()
        admit(session, sql=sql, lake=lake)
        return answer(session, Question(sql, LIMITS)).rows

    found = find(ask, since=RECEIVED.replace(hour=12, minute=0, second=0, microsecond=0), until=RECEIVED + timedelta(hours=2))

    assert [(row["source"], row["events"], row["bytes"]) for row in found.traffic] == [("github", 2, 20)]
    assert [(row["event_type"], row["events"]) for row in found.types] == [("github.push", 2)]
    assert len(found.archive_latency) == 1
    assert found.processing_latency == []
    assert [(row["group_name"], row["processor"], row["dead"], row["p95"]) for row in found.processors] == [("g", "index", 1, 7.0)]
    assert sorted((row["path"], row["type"], row["is_new"]) for row in found.drift) == [
        ("$", "array", True),
        ("a", "integer", False),
        ("a", "string", True),
        ("b", "integer", True),
    ]
    assert "github.push" in page_of(found, made_at=datetime.now(UTC))


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (("--since", "1h", "--until", "2h"), 2, "nothing to report"),
        (("--since", "yesterday"), 2, "is no time"),
        ((), 3, "there is no table"),
    ],
)
def test_what_cannot_be_reported_is_one_sentence(home: Path, arguments: tuple[str, ...], code: int, said: str) -> None:
    (home / FILE_NAME).touch()
    command = [sys.executable, "-m", "analytics.report", *arguments]
    environment = environment_with({"HOOKLAKE_HOME": str(home)})

    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=200, check=False)

    assert (done.returncode, done.stdout) == (code, "")
    assert said in done.stderr
    assert len(done.stderr.splitlines()) == 1
