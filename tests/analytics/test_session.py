from __future__ import annotations

import logging
from typing import Any

import pyspark
import pytest
from pyspark.sql import SparkSession

from analytics.session import with_given


def test_a_connection_that_breaks_is_a_line_of_the_log_and_no_traceback(
    spark: SparkSession, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    # Told as the server itself tells it: it serves one connection at a time, and Spark's JVM may hold that for as long as it lives.
    server: Any = spark.sparkContext._accumulatorServer

    with caplog.at_level(logging.WARNING):
        try:
            raise ConnectionResetError("the JVM is gone")
        except ConnectionResetError:
            server.handle_error(None, ("127.0.0.1", 1))

    assert "a connection of Spark's JVM broke" in caplog.text
    assert "the JVM is gone" in caplog.text
    assert "Traceback" not in capfd.readouterr().err


def test_pythons_that_spark_starts_import_the_installed_pyspark(spark: SparkSession) -> None:
    # From a zip it would be compiled anew in each of them.
    (place,) = spark.sparkContext.parallelize([0], 1).map(lambda _: __import__("pyspark").__file__).collect()

    assert place == pyspark.__file__


def test_what_the_user_hands_to_spark_counts_and_jars_are_added() -> None:
    ours = {"spark.jars": "/ours.jar", "spark.ui.enabled": "false"}

    assert with_given(ours, given={}) == ours
    assert with_given(ours, given={"spark.jars": "/theirs.jar", "spark.ui.enabled": "true"}) == {
        "spark.jars": "/ours.jar,/theirs.jar",
        "spark.ui.enabled": "true",
    }
