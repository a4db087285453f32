from __future__ import annotations

import logging
import socket
import time
from typing import Any

import pytest
from pyspark.sql import SparkSession


@pytest.mark.xdist_group("spark")
def test_a_connection_that_breaks_is_a_line_of_the_log_and_no_traceback(
    spark: SparkSession, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    server: Any = spark.sparkContext._accumulatorServer

    with caplog.at_level(logging.WARNING), socket.create_connection(server.server_address, timeout=10) as stranger:
        stranger.sendall(b"no token of Spark's")
        stranger.shutdown(socket.SHUT_WR)
        deadline = time.monotonic() + 60
        while "a connection of Spark's JVM broke" not in caplog.text:
            assert time.monotonic() < deadline, (caplog.text, capfd.readouterr().err)
            time.sleep(0.05)

    assert "Traceback" not in capfd.readouterr().err
