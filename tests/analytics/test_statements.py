from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from analytics.commits import Commit, CommittedTable
from analytics.query import answer
from analytics.settings import ArchiveSettings, table_location
from analytics.statements import REMOVED_FUNCTIONS
from analytics.tables import EVENTS
from analytics.transforms import to_events
from schemas.errors import ConfigError
from tests.analytics.test_transforms import raw

SETTINGS = ArchiveSettings()

QUESTIONS = [
    "SELECT id, payload:a::int AS a FROM events WHERE received_date = DATE'2026-02-28'",
    "SELECT event_type, count(*) AS n FROM events GROUP BY ALL HAVING n > 0 ORDER BY n DESC LIMIT 5",
    "WITH pushes AS (SELECT * FROM events WHERE event_type = 'github.push') SELECT count(*) FROM pushes",
    "SELECT e.id FROM events e JOIN (SELECT max(id) AS id FROM events) newest ON e.id = newest.id",
    "SELECT id FROM events WHERE id IN (SELECT id FROM events) UNION ALL SELECT 'x'",
    "SELECT row_number() OVER w FROM events WINDOW w AS (PARTITION BY stream ORDER BY sequence)",
    "SELECT k, v FROM events LATERAL VIEW explode(headers) AS k, v",
    "SELECT t.key FROM events, LATERAL variant_explode(payload) AS t",
    "TABLE events",
]

ATTACKS = [
    "DROP TABLE events",
    "DELETE FROM events",
    "INSERT INTO events SELECT * FROM events",
    "WITH t AS (SELECT 1) INSERT INTO x SELECT * FROM t",
    "CREATE TABLE x AS SELECT 1",
    "CREATE FUNCTION f AS 'x' USING JAR '/x.jar'",
    "SET spark.sql.runSQLOnFiles=true",
    "ADD JAR '/x.jar'",
    "CACHE TABLE events",
    "EXECUTE IMMEDIATE 'DROP TABLE events'",
    "BEGIN DROP TABLE events; END",
    "INSERT OVERWRITE LOCAL DIRECTORY '/tmp/out' SELECT 1",
    "SELECT TRANSFORM(id) USING 'cat' AS (x) FROM events",
    "SELECT 1; SELECT 2",
    "SELECT * FROM delta.`/tmp`",
    "SELECT * FROM text.`/etc/passwd`",
    "SELECT * FROM `/etc/passwd`",
    "SELECT * FROM IDENTIFIER('text.`/etc/passwd`')",
    "WITH a AS (SELECT * FROM text.`/etc/passwd`) SELECT * FROM a",
    "SELECT (SELECT max(value) FROM text.`/etc/passwd`)",
    "SELECT id FROM events WHERE id IN (SELECT value FROM text.`/etc/passwd`)",
    "SELECT sum(1) OVER w FROM events WINDOW w AS (PARTITION BY (SELECT max(value) FROM text.`/etc/passwd`))",
    "SELECT * FROM VALUES ((SELECT max(value) FROM text.`/etc/passwd`))",
    "SELECT * FROM read_files('/etc/passwd')",
    "SELECT * FROM table_changes_by_path('/tmp', 0)",
    "SELECT reflect('java.lang.System', 'getenv', 'PATH')",
    "SELECT builtin.reflect('java.lang.System', 'getenv', 'PATH')",
    "SELECT system.builtin.java_method('java.lang.System', 'getenv', 'PATH')",
    "SELECT IDENTIFIER('reflect')('java.lang.System', 'getenv', 'PATH')",
    "VALUES (reflect('java.lang.System', 'exit', 1))",
    "SELECT sum(1) OVER w FROM events WINDOW w AS (PARTITION BY reflect('java.lang.System', 'getenv', 'PATH'))",
]


@pytest.fixture(scope="module")
def lake(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A home with one archived event."""
    home = tmp_path_factory.mktemp("lake")
    table = CommittedTable(spark, table=EVENTS, location=table_location(SETTINGS, home=home, table=EVENTS.name))
    rows = to_events(raw(spark, {"body": b'{"a": 1}'}), batch=1, archived_at=datetime.now(UTC))
    table.append(rows, commit=Commit("run", "events", 1, {}, read=1))
    return home


@pytest.fixture(scope="module")
def asking(spark: SparkSession) -> SparkSession:
    """Hardening takes things from a session, so this is not the one that others use."""
    return spark.newSession()


@pytest.mark.parametrize("sql", QUESTIONS)
def test_a_question_is_answered(asking: SparkSession, lake: Path, sql: str) -> None:
    _, rows = answer(asking, sql=sql, settings=SETTINGS, home=lake, limit=10)

    assert len(rows) >= 1


@pytest.mark.parametrize("sql", ATTACKS)
def test_what_is_more_than_a_question_is_refused(asking: SparkSession, lake: Path, sql: str) -> None:
    with pytest.raises(ConfigError):
        answer(asking, sql=sql, settings=SETTINGS, home=lake, limit=10)


def test_a_query_cannot_print_the_environment(asking: SparkSession, lake: Path) -> None:
    _, rows = answer(asking, sql="SELECT '${env:PATH}' AS path", settings=SETTINGS, home=lake, limit=10)

    assert rows[0].path == "${env:PATH}"


def test_every_function_of_this_spark_was_looked_at(spark: SparkSession) -> None:
    # Another release brings other functions: look through the new ones, then change the number.
    functions = {row.function for row in spark.sql("SHOW SYSTEM FUNCTIONS").collect()}

    assert len(functions) == FUNCTIONS_LOOKED_AT
    assert functions >= REMOVED_FUNCTIONS


FUNCTIONS_LOOKED_AT = 574
