from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from analytics.catalog import Lake
from analytics.commits import Commit, CommittedTable
from analytics.parameters import Value, bound
from analytics.questions import Answer, Limits, Question, admit, answer
from analytics.settings import ArchiveSettings
from analytics.statements import REMOVED_FUNCTIONS, reading_rows_by
from analytics.tables import EVENTS
from analytics.transforms import to_events
from schemas.errors import ConfigError, QueryCancelled, TableUnavailable
from tests.analytics.statements import ATTACKS, COMMAND, OUTSIDE, QUESTIONS
from tests.analytics.test_transforms import raw
from tests.infra.running.processes import until

SETTINGS = ArchiveSettings()


@pytest.fixture(scope="module")
def lake(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lake]:
    """A home with one archived event, in a Spark where somebody else has given names to other things."""
    lake = Lake(SETTINGS, tmp_path_factory.mktemp("lake"))
    table = CommittedTable(spark, table=EVENTS, location=lake.location(EVENTS))
    rows = to_events(raw(spark, {"body": b'{"a": 1}'}), batch=1, archived_at=datetime.now(UTC))
    table.append(rows, commit=Commit("run", "events", 1, {}, read=1))
    # Other tests of the same Spark leave names behind, and a temporary one would be dropped in place of the one that all sessions know.
    spark.sql("DROP VIEW IF EXISTS spark_catalog.default.events")
    spark.sql("CREATE VIEW from_outside AS SELECT 'secret'")
    spark.sql("CREATE GLOBAL TEMPORARY VIEW from_outside AS SELECT 'secret'")
    spark.sql("CREATE VIEW events AS SELECT 'not ours' AS id")
    yield lake
    for view in ("from_outside", "global_temp.from_outside", "events"):
        spark.sql(f"DROP VIEW {view}")


@pytest.fixture(scope="module")
def asking(spark: SparkSession) -> SparkSession:
    """Hardening takes things from a session, so this is not the one that others use."""
    return spark.newSession()


def asked(spark: SparkSession, sql: str, *, lake: Lake, **values: Value) -> Answer:
    text = bound(sql, values=values)
    admit(spark, sql=text, lake=lake)
    return answer(spark, Question(text, Limits(rows=10)))


@pytest.mark.parametrize("sql", QUESTIONS)
def test_a_question_is_answered(asking: SparkSession, lake: Lake, sql: str) -> None:
    assert len(asked(asking, sql, lake=lake).rows) >= 1


@pytest.mark.parametrize("sql", ATTACKS)
def test_what_is_more_than_a_question_is_refused(asking: SparkSession, lake: Lake, sql: str) -> None:
    with pytest.raises(ConfigError):
        asked(asking, sql, lake=lake)


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT * FROM text.`/etc/passwd`",
        "SELECT reflect('java.lang.System', 'getenv', 'PATH')",
        "SELECT * FROM from_outside",
        f"SELECT sum(1) OVER w FROM VALUES (1) WINDOW w AS (PARTITION BY {OUTSIDE})",
        f"FROM VALUES (1) AS t(a) |> SET a = {OUTSIDE} |> WHERE a = 'secret'",
        "SELECT a.* FROM from_outside a, (WITH from_outside AS (SELECT 1) SELECT * FROM from_outside) b",
        "SELECT '${env:PATH}' AS path WHERE '${env:PATH}' <> concat('${', 'env:PATH}')",
    ],
)
def test_a_session_that_admits_everything_would_run_it(spark: SparkSession, lake: Lake, sql: str) -> None:
    """The control of the tests above: what is refused does harm."""
    assert spark.newSession().sql(sql).collect() != []


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT sum(1) OVER w FROM VALUES (1) WINDOW w AS (PARTITION BY {command})",
        "SELECT s FROM (SELECT sum(1) OVER w AS s FROM VALUES (1) WINDOW w AS (ORDER BY {command}))",
        "FROM VALUES (1) AS t(a) |> SET a = {command}",
    ],
)
def test_a_query_that_hides_a_command_does_not_run_it(asking: SparkSession, lake: Lake, tmp_path: Path, sql: str) -> None:
    ran = tmp_path / "ran"
    text = sql.format(command=COMMAND.replace("echo 1", f"touch {ran}; echo 1"))

    with pytest.raises(ConfigError, match="cannot be looked at"):
        asked(asking, text, lake=lake)

    assert not ran.exists()
    asking.newSession().sql(text).collect()
    assert ran.exists()  # The control: it is there as soon as nobody looks.


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT a.* FROM from_outside a, (WITH from_outside AS (SELECT 1) SELECT * FROM from_outside) b",
        "WITH from_outside AS (SELECT * FROM from_outside) SELECT * FROM from_outside",
        "WITH a AS (SELECT * FROM from_outside), from_outside AS (SELECT 1) SELECT * FROM a",
    ],
)
def test_a_name_that_a_with_gives_is_not_given_elsewhere(asking: SparkSession, lake: Lake, sql: str) -> None:
    with pytest.raises(ConfigError, match="the query reads from_outside, and there is no such table"):
        admit(asking, sql=sql, lake=lake)


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT secret FROM from_outside",
        "SELECT (SELECT secret FROM from_outside) AS secret",
        "SELECT secret FROM (WITH a AS (SELECT secret FROM from_outside) SELECT secret FROM a)",
        "SELECT secret FROM events, LATERAL (SELECT secret FROM from_outside)",
        "SELECT col AS secret FROM explode(array((SELECT secret FROM from_outside)))",
        "SELECT secret FROM events LATERAL VIEW explode(array((SELECT secret FROM from_outside))) AS secret",
        "SELECT 'given' AS secret FROM events JOIN from_outside ON (SELECT secret FROM from_outside) = 'given'",
        "SELECT max((SELECT secret FROM from_outside)) OVER (PARTITION BY id) AS secret FROM events",
        "FROM events |> EXTEND (SELECT secret FROM from_outside) AS secret |> SELECT secret",
    ],
)
def test_a_name_that_a_with_gives_is_not_looked_up_where_it_holds(asking: SparkSession, lake: Lake, sql: str) -> None:
    rows = asked(asking, f"WITH from_outside AS (SELECT 'given' AS secret) {sql}", lake=lake).rows

    assert [row.secret for row in rows] == ["given"]


def test_what_java_itself_fails_on_is_one_sentence_too(asking: SparkSession, lake: Lake) -> None:
    with pytest.raises(ConfigError, match=r"^the query failed: java\.lang\.StackOverflowError$"):
        asked(asking, "SELECT repeat('a', 100000) RLIKE '(a|b)*c'", lake=lake)


@pytest.mark.parametrize("condition", ["", "id = 'one'"])
def test_a_table_without_its_files_is_no_matter_of_the_condition(spark: SparkSession, tmp_path: Path, condition: str) -> None:
    spark.range(3).selectExpr("cast(id AS STRING) AS id").write.parquet(str(tmp_path / "rows"))
    rows = spark.read.parquet(str(tmp_path / "rows")).where(condition or "true")
    for file in (tmp_path / "rows").glob("*.parquet"):
        file.unlink()

    with pytest.raises(TableUnavailable, match="rows cannot be read"), reading_rows_by(condition, location="rows"):
        rows.collect()


def test_a_query_cannot_print_the_environment(asking: SparkSession, lake: Lake) -> None:
    (row,) = asked(asking, "SELECT '${env:PATH}' AS path", lake=lake).rows

    assert row.path == "${env:PATH}"


def test_a_name_is_our_table_whatever_others_have_called_so(asking: SparkSession, lake: Lake) -> None:
    (row,) = asked(asking, "SELECT id FROM events", lake=lake).rows

    assert row.id == "one"


def test_parameters_have_the_values_and_types_that_were_given(asking: SparkSession, lake: Lake) -> None:
    sql = """SELECT :text AS text, :number + 1 AS number, payload:a::int AS a, ':text' AS no, typeof(:price) AS price, :at AS at, :x AS x
             FROM events WHERE received_date >= :since AND event_type = :type AND :ratio > 1 LIMIT :most -- :nothing"""
    text = "' OR 1=1 -- \\' \\\\ \n${env:PATH} \u00e9 :number"
    moment = datetime(2026, 2, 28, 12, 30, tzinfo=UTC)

    (row,) = asked(
        asking, sql, lake=lake, text=text, number=41, since=date(2026, 1, 1), type="github.push", most=5, ratio=1.5,
        price=Decimal("1.10"), at=moment, x=None,
    ).rows  # fmt: skip

    assert (row.text, row.number, row.a, row.no, row.price, row.x) == (text, 42, 1, ":text", "decimal(3,2)", None)
    assert row.at.astimezone(UTC) == moment


@pytest.mark.parametrize("sql", ["SELECT * FROM IDENTIFIER(:p)", "SELECT IDENTIFIER(:f)('java.lang.System', 'getenv', 'PATH')"])
def test_no_parameter_becomes_a_name_of_what_may_not_be_read(asking: SparkSession, lake: Lake, sql: str) -> None:
    with pytest.raises(ConfigError):
        asked(asking, sql, lake=lake, **({"p": "text.`/etc/passwd`"} if ":p" in sql else {"f": "reflect"}))


def test_a_parameter_without_a_value_is_named(asking: SparkSession, lake: Lake) -> None:
    with pytest.raises(ConfigError, match="since"):
        asked(asking, "SELECT * FROM events WHERE received_date > :since", lake=lake)


def test_a_question_that_takes_too_long_is_cancelled(asking: SparkSession, lake: Lake) -> None:
    sql = "SELECT count(*) FROM range(1000000000000)"
    admit(asking, sql=sql, lake=lake)

    with pytest.raises(QueryCancelled, match="did not end within 1 s"):
        answer(asking, Question(sql, Limits(timeout_s=1)))

    tracker = asking.sparkContext.statusTracker()
    until(lambda: not tracker.getActiveJobsIds(), what="its jobs have ended")


def test_a_table_that_does_not_exist_yet_is_empty(asking: SparkSession, tmp_path: Path) -> None:
    assert asked(asking, "SELECT id, payload, headers FROM events", lake=Lake(SETTINGS, tmp_path)).rows == []


def test_every_function_of_this_spark_was_looked_at(spark: SparkSession) -> None:
    # Another release brings other functions: look through the new ones, then change the number.
    functions = {row.function for row in spark.sql("SHOW SYSTEM FUNCTIONS").collect()}

    assert len(functions) == FUNCTIONS_LOOKED_AT
    assert functions >= REMOVED_FUNCTIONS


FUNCTIONS_LOOKED_AT = 574
