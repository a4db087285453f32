from __future__ import annotations

import logging
from typing import Any

import pytest
from pyspark.sql import SparkSession


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
