"""Owns how Spark is started: our jars, one time zone, no ports to the outside, no files outside the home."""

from __future__ import annotations

import logging
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, BinaryIO

from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark import SparkConf, SparkContext
from pyspark.errors import PySparkException
from pyspark.java_gateway import launch_gateway
from pyspark.sql import SparkSession

from analytics.class_archive import class_options, unzipped_home
from analytics.jars import install_jars, jar_directory, spark_home
from analytics.java import find_java
from analytics.settings import ArchiveSettings
from analytics.sharing import cores_of, shared_master, sharing
from infra.settings import set_environment
from schemas.errors import TableUnavailable

# As Parquet knows them. The least and the greatest value of each row group are kept in memory until the file ends: of bodies
# that would be most of the file, and nobody asks for them. A dictionary of bodies would only be another copy.
LARGE_COLUMNS = ("body", "raw_entry", "payload.value", "payload.metadata")

# A payload may be nested a thousand levels deep, and Spark goes through it by calls within calls. A task whose stack overflows takes the
# whole JVM with it, and would again after each restart; the usual 1 MB holds 600 levels, and not 990.
DEEP_STACKS = "-Xss4m"

# Where jars are named, and what separates them.
JARS_OF_BOTH = {"spark.jars": ",", "spark.driver.extraClassPath": os.pathsep}

# Everything that the JVM says becomes one JSON object a line, like our own log.
LOGGING = """\
rootLogger.level = error
# Spark's shell sets the root to the level of this one, and says so on stderr when they differ.
logger.shell.name = org.apache.spark.api.python.PythonGatewayServer
logger.shell.level = error
rootLogger.appenderRef.stderr.ref = stderr
appender.stderr.type = Console
appender.stderr.name = stderr
appender.stderr.target = SYSTEM_ERR
appender.stderr.layout.type = JsonTemplateLayout
appender.stderr.layout.eventTemplateUri = classpath:org/apache/spark/SparkLayout.json
"""


def archive_session(settings: ArchiveSettings, *, home: Path) -> SparkSession:
    """For the process that runs for months; takes some ten seconds. Raises ConfigError without Java, Unavailable without jars."""
    scratch = archive_scratch(home)
    shutil.rmtree(scratch, ignore_errors=True)  # What a killed run has left; the caller owns the tables, so nobody works there.
    scratch.mkdir(parents=True)
    more = sharing(settings.master, scratch=scratch)
    return _start(settings, scratch=scratch, master=shared_master(settings.master), more=more, java_options=(), jvm_stderr=None)


def archive_scratch(home: Path) -> Path:
    """Where the archive's Spark works; emptied when it starts."""
    return home / "run" / "spark-archive"


def quick_session(settings: ArchiveSettings, *, home: Path, record: Path | None = None) -> SparkSession:
    """For tests and one-shot commands: the JVM compiles less, so it starts sooner and peaks lower.

    With `record` it writes there, when it ends, which classes it has loaded.
    """
    # A JVM that compiles less also has less room for what it compiled, throws code of Spark's away and compiles it again.
    compiler = ("-XX:TieredStopAtLevel=1", "-XX:ReservedCodeCacheSize=240m")
    scratch = home / "run" / "spark-quick"
    scratch.mkdir(parents=True, exist_ok=True)
    # A one-shot command reports its own errors; the JVM's would only repeat them at length.
    with (scratch / "jvm.log").open("wb") as file:
        return _start(settings, scratch=scratch, master=settings.master, more={}, java_options=compiler, jvm_stderr=file, record=record)


def _start(
    settings: ArchiveSettings,
    *,
    scratch: Path,
    master: str,
    more: dict[str, str],
    java_options: tuple[str, ...],
    jvm_stderr: BinaryIO | None,
    record: Path | None = None,
) -> SparkSession:
    java, jars = find_java(), install_jars(jar_directory())
    classes = (f"-XX:ArchiveClassesAtExit={record}",) if record else class_options(java)
    temporary = scratch / "tmp"
    temporary.mkdir(parents=True, exist_ok=True)
    log_layout = scratch / "log4j2.properties"
    log_layout.write_text(LOGGING)
    is_here = master.startswith("local")
    _tell_spark_where_things_are(java.home, spark=unzipped_home(scratch) if is_here else spark_home(), is_here=is_here)
    places = (f"-Dlog4j2.configurationFile={log_layout.as_uri()}", f"-Dderby.system.home={scratch}", f"-Djava.io.tmpdir={temporary}")
    # Performance data would be a file in the machine's /tmp.
    # Each in quotes: the home's path may have spaces.
    options = " ".join(f'"{option}"' for option in (*places, "-XX:-UsePerfData", DEEP_STACKS, *java_options, *classes))
    configuration = {
        **_everywhere(scratch=scratch),
        **_with_delta(jars, is_alone=cores_of(master) is not None),
        **(_on_this_machine() if is_here else _on_a_cluster(settings)),
        "spark.driver.memory": settings.driver_memory,
        "spark.driver.extraJavaOptions": options,
        **more,
    }
    configuration = with_given(configuration, given=settings.spark)
    conf = SparkConf().setMaster(master).setAppName("hooklake").setAll(list(configuration.items()))
    try:
        gateway = launch_gateway(conf, popen_kwargs={"stderr": jvm_stderr})  # type: ignore[no-untyped-call]
        SparkContext._ensure_initialized(gateway=gateway, conf=conf)
        spark = SparkSession.builder.config(conf=conf).getOrCreate()
    except PySparkException as error:
        raise TableUnavailable(f"Spark did not start ({error.getMessage()}), so the tables cannot be reached") from error
    _log_broken_connections(spark)
    return spark


def _log_broken_connections(spark: SparkSession) -> None:
    """When the JVM dies, pyspark's server would print a traceback between the JSON lines of our log; it becomes one of them."""
    server: Any = spark.sparkContext._accumulatorServer
    log = logging.getLogger("pyspark.accumulators")
    server.handle_error = lambda _request, _address: log.warning("a connection of Spark's JVM broke", exc_info=True)


def _with_delta(jars: list[Path], *, is_alone: bool) -> dict[str, str]:
    # On the class path they are part of the archive of classes; executors of their own have to be given them.
    if is_alone:
        return {"spark.driver.extraClassPath": os.pathsep.join(str(jar) for jar in jars)}
    return {"spark.jars": ",".join(str(jar) for jar in jars)}


def _everywhere(*, scratch: Path) -> dict[str, str]:
    return {
        "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.warehouse.dir": str(scratch / "warehouse"),
        "spark.local.dir": str(scratch),
        # A row group is kept in memory until it is written, and its size is first looked at after 100 rows: of large bodies
        # those would be gigabytes. Looked at from the first row on; the writer itself looks less often while rows are small.
        "spark.hadoop.parquet.block.size": str(32 * 1024 * 1024),
        "spark.hadoop.parquet.page.size.row.check.min": "1",
        **{f"spark.hadoop.parquet.column.statistics.enabled#{column}": "false" for column in LARGE_COLUMNS},
        **{f"spark.hadoop.parquet.enable.dictionary#{column}": "false" for column in LARGE_COLUMNS},
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        # Python workers import this package; it need not be on their path by itself.
        "spark.executorEnv.PYTHONPATH": str(Path(__file__).parent.parent),
    }


def _on_this_machine() -> dict[str, str]:
    return {
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        # The defaults (200 and 50) are for clusters: each would be so many tasks for a handful of rows.
        "spark.sql.shuffle.partitions": "2",
        "spark.databricks.delta.snapshotPartitions": "1",
    }


def _on_a_cluster(settings: ArchiveSettings) -> dict[str, str]:
    """Executors connect to the driver, so it must listen where they can reach it."""
    host = settings.driver_host
    return {
        # The default (50) would be so many tasks before each batch, to read a log that upkeep keeps short.
        "spark.databricks.delta.snapshotPartitions": "4",
        "spark.executor.extraJavaOptions": DEEP_STACKS,
        **({"spark.driver.host": host, "spark.driver.bindAddress": host} if host else {}),
    }


def with_given(ours: dict[str, str], *, given: Mapping[str, str]) -> dict[str, str]:
    """Ours with what the user says, who knows better; but the jars of both. Pure."""
    joined = {name: sign.join(filter(None, (ours.get(name), given.get(name)))) for name, sign in JARS_OF_BOTH.items()}
    return {**ours, **given, **{name: value for name, value in joined.items() if value}}


def _tell_spark_where_things_are(java_home: Path, *, spark: Path, is_here: bool) -> None:
    # Whatever the user's shell says about another Spark: these jars fit this one.
    set_environment(
        {
            "JAVA_HOME": str(java_home),
            "SPARK_HOME": str(spark),
            "PYSPARK_PYTHON": sys.executable,
            "PYSPARK_DRIVER_PYTHON": sys.executable,
            # A cluster could not reach a driver that listens there.
            **({"SPARK_LOCAL_IP": "127.0.0.1"} if is_here else {}),
        }
    )


def driver_process(spark: SparkSession) -> subprocess.Popen[bytes]:
    """The JVM that does the work: when it is dead, no call to Spark will ever succeed again."""
    gateway: Any = spark.sparkContext._gateway
    process: subprocess.Popen[bytes] = gateway.proc
    return process


def stop_session(spark: SparkSession, *, patience_s: float = 20) -> None:
    """Stops Spark and waits for its JVM, so that nothing is left behind and every lock is free."""
    process = driver_process(spark)
    with suppress(Py4JError):  # A signal may have broken a call off, and the connection with it; the JVM then ends by the order below.
        spark.stop()
    gateway: Any = SparkContext._gateway
    gateway.shutdown()
    SparkContext._gateway = SparkContext._jvm = None
    if process.stdin is not None:
        process.stdin.close()  # What the JVM takes as its order to end.
    try:
        process.wait(patience_s)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
