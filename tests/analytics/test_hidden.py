from __future__ import annotations

from typing import Any

import pytest
from pyspark.sql import SparkSession

from analytics.hidden import hides_something
from tests.analytics.statements import QUESTIONS


def parsed(spark: SparkSession, sql: str) -> Any:
    session: Any = spark._jsparkSession
    return session.sessionState().sqlParser().parsePlan(sql)


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT sum(1) OVER w FROM t WINDOW w AS (PARTITION BY (SELECT 1))",
        "SELECT sum(1) OVER w FROM t WINDOW v AS (ORDER BY 1), w AS (ORDER BY abs(1 + (SELECT 1)))",
        "SELECT * FROM t WHERE EXISTS (SELECT sum(1) OVER w FROM t WINDOW w AS (PARTITION BY a IN (SELECT 1)))",
        "FROM t |> SET a = 1, b = EXISTS (SELECT 1)",
        "SELECT * FROM f(TABLE(SELECT 1) PARTITION BY (SELECT 1))",
        "SELECT * FROM f(TABLE(SELECT 1) PARTITION BY 1 ORDER BY (SELECT 1))",
        "SELECT * FROM f(a => TABLE(SELECT 1) PARTITION BY (SELECT 1))",
        "SELECT * FROM t FOR SYSTEM_TIME AS OF (SELECT 1)",
        "BEGIN SELECT 1; END",
        "SELECT IDENTIFIER('co' || 'unt')(1)",
        "SELECT IDENTIFIER('a') FROM t",
        "SELECT * FROM IDENTIFIER('a' || 'b')",
    ],
)
def test_what_spark_does_not_find_itself_is_hidden(spark: SparkSession, sql: str) -> None:
    assert hides_something(spark, plan=parsed(spark, sql))


@pytest.mark.parametrize(
    "sql",
    [
        *QUESTIONS,
        "SELECT CASE WHEN (SELECT 1) = 1 THEN (SELECT 2) END, count(*) FILTER (WHERE a IN (SELECT 1)) FROM t GROUP BY CUBE (a)",
        "SELECT transform(a, x -> x + (SELECT 1)), listagg(b) WITHIN GROUP (ORDER BY (SELECT 1)), * EXCEPT (c) FROM t LIMIT (SELECT 1)",
        "SELECT * FROM range(end => (SELECT 1)), LATERAL (SELECT 1) JOIN t ON (SELECT 1) = 1",
        "VALUES ((SELECT 1), map('a', current_timestamp())), (2, map())",
        "SELECT * FROM t UNPIVOT ((x, y) FOR n IN ((a, b) AS ab))",
    ],
)
def test_what_spark_finds_is_not_hidden(spark: SparkSession, sql: str) -> None:
    assert not hides_something(spark, plan=parsed(spark, sql))


def test_thousands_of_values_hide_nothing(spark: SparkSession) -> None:
    values = ", ".join(f"'{number}'" for number in range(5000))

    assert not hides_something(spark, plan=parsed(spark, f"SELECT * FROM t WHERE a IN ({values})"))
    assert hides_something(spark, plan=parsed(spark, f"FROM t |> SET b = a IN ({values}, (SELECT 1))"))
