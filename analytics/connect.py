"""Owns the archive's Spark Connect: a door into its own driver, on this machine only, behind a token that each start makes anew.

Whoever passes can run whatever Spark can, as the user who runs the archive. So nobody passes without the token, which lies in the
home in a file of mode 0600, and is on no command line. The door is opened through the JVM once Spark runs, not as a plugin: a port
that is taken is then a sentence of ours, and Spark's start does not wait for it.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]
from pyspark.sql import SparkSession

from infra.running.initialise import write_new
from infra.running.services import CONNECT_FILE, CONNECT_SETTING
from schemas.errors import ConfigError

SERVICE = "org.apache.spark.sql.connect.service.SparkConnectService$"
HOST = "127.0.0.1"


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Where Spark Connect listens, and what opens it."""

    port: int
    token: str

    @property
    def address(self) -> str:
        # By this name and no number: pyspark sends a token to `localhost` as it is, and wants TLS everywhere else.
        return f"sc://localhost:{self.port}/;token={self.token}"


@contextmanager
def endpoint(spark: SparkSession, *, port: int, home: Path) -> Iterator[Endpoint]:
    """Open while the context is, and told in `run/connect`; raises ConfigError when the port is taken. Port 0 takes a free one."""
    opened = _start(spark, port=port, token=secrets.token_urlsafe(32))
    try:
        publish(home / CONNECT_FILE, opened.address)
        yield opened
    finally:
        (home / CONNECT_FILE).unlink(missing_ok=True)


def publish(path: Path, text: str) -> None:
    """There whole or not at all, and for its owner only; what a killed archive has left is replaced."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    path.unlink(missing_ok=True)
    write_new(path, f"{text}\n")


def _start(spark: SparkSession, *, port: int, token: str) -> Endpoint:
    service = connect_service(spark)
    context: Any = spark.sparkContext._jsc.sc()
    settings = {
        "spark.connect.grpc.binding.address": HOST,
        "spark.connect.grpc.binding.port": str(port),
        "spark.connect.authenticate.token": token,
        # A client that vanished leaves its query running: this long, not the five minutes of the default.
        "spark.connect.execute.manager.detachedTimeout": "30s",
        "spark.connect.execute.manager.maintenanceInterval": "10s",
    }
    for name, value in settings.items():
        context.conf().set(name, value)
    try:
        service.start(context)
    except Py4JJavaError as error:
        raise ConfigError(
            f"{CONNECT_SETTING}={port} cannot be used on {HOST} ({_reason(error)}), so neither notebooks nor `hooklake query` could ask "
            "the archive's Spark: stop what listens there, set another port, or set archive.connect to false"
        ) from error
    return Endpoint(int(service.localPort()), token)


def _reason(error: Py4JJavaError) -> str:
    return str(error.java_exception.getMessage()).strip().partition("\n")[0][:200]


def connect_service(spark: SparkSession) -> Any:
    """Spark's own object behind the door."""
    return getattr(getattr(spark._jvm, SERVICE), "MODULE$")
