from __future__ import annotations

import re
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import yaml

from analytics.jars import spark_home
from analytics.java import find_java
from infra.settings import FILE_NAME, LogSettings, environment_with
from tests.analytics.conftest import append
from tests.analytics.test_main import ROOT
from tests.end_to_end.installation import descendants, is_alive
from tests.events import events_of_all_shards
from tests.lake import archived
from tests.ports import free_port

# Four JVMs start, on whatever else the machine does.
PATIENCE_S = 400
AT_FULL_SIZE = pytest.mark.skipif(
    "not config.getoption('--full-size')",
    reason="each starts three or four JVMs, which takes a minute and a half: `make faults ONLY=SCALE` runs them",
)
SHORT_LIVED = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"


def spark_class(*arguments: str, output: Path) -> subprocess.Popen[bytes]:
    """One daemon of a standalone cluster, from the jars that pip installed."""
    environment = environment_with(
        {
            "JAVA_HOME": str(find_java().home),
            "SPARK_HOME": str(spark_home()),
            "SPARK_LOCAL_IP": "127.0.0.1",
            "SPARK_DAEMON_MEMORY": "256m",
            "SPARK_DAEMON_JAVA_OPTS": SHORT_LIVED,
            "PYTHONPATH": str(ROOT),
        }
    )
    with output.open("wb") as file:
        return subprocess.Popen([str(spark_home() / "bin" / "spark-class"), *arguments], env=environment, stdout=file, stderr=file)


@contextmanager
def a_cluster(folder: Path) -> Iterator[str]:
    """A master and a worker of one core; its address. Leaves no process behind, not even the executors that the worker started."""
    port = free_port()
    address = f"spark://127.0.0.1:{port}"
    here = ("--host", "127.0.0.1", "--webui-port", "0")
    daemons = [spark_class("org.apache.spark.deploy.master.Master", *here, "--port", str(port), output=folder / "master.log")]
    try:
        worker = ("org.apache.spark.deploy.worker.Worker", *here, "-c", "1", "-m", "1g", "-d", str(folder / "work"), address)
        daemons.append(spark_class(*worker, output=folder / "worker.log"))
        until_said(folder / "worker.log", "Successfully registered with master", process=daemons[1])
        yield address
    finally:
        family = [pid for daemon in daemons for pid in descendants(daemon.pid)]
        for daemon in reversed(daemons):
            daemon.terminate()
        for daemon in daemons:
            daemon.wait(30)
        assert not [pid for pid in family if is_alive(pid)]


def until_said(path: Path, text: str, *, process: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while text not in path.read_text(errors="replace"):
        assert process.poll() is None, path.read_text(errors="replace")
        assert time.monotonic() < deadline, path.read_text(errors="replace")
        time.sleep(0.1)


@contextmanager
def an_archive(home: Path, *, log: LogSettings, master: str) -> Iterator[subprocess.Popen[bytes]]:
    archive: dict[str, object] = {
        "ops_port": 0,
        "interval_ms": 100,
        "master": master,
        "driver_host": "127.0.0.1",
        "gold_interval_ms": 0,
        "connect_port": 0,
    }
    # Two cores make no cluster: what is for many of them would only be many tasks one after the other.
    archive["spark"] = {"spark.sql.shuffle.partitions": "1", "spark.databricks.delta.snapshotPartitions": "1"}
    (home / FILE_NAME).write_text(yaml.safe_dump({"log": {"url": log.url, "prefix": log.prefix}, "archive": archive}))
    with (home / "archive.log").open("ab") as output:
        environment = environment_with({"HOOKLAKE_HOME": str(home)})
        process = subprocess.Popen([sys.executable, "-m", "analytics"], cwd=ROOT, env=environment, stderr=output)
    try:
        yield process
        process.terminate()
        assert process.wait(PATIENCE_S) == 0
    finally:
        process.kill()
        process.wait()


def drains(home: Path, *, log: LogSettings, master: str) -> set[int]:
    """Archives two lots of events on that master; the processes that belonged to it."""
    first, second = events_of_all_shards(log, count=8), events_of_all_shards(log, count=4)
    append(log, home, *first)
    with an_archive(home, log=log, master=master) as process:
        until_said(home / "archive.log", "archive ready", process=process)
        append(log, home, *second)
        deadline = time.monotonic() + PATIENCE_S
        while len(archived(home, "id")) < len(first) + len(second):
            assert process.poll() is None, (home / "archive.log").read_text()
            assert time.monotonic() < deadline, (home / "archive.log").read_text()
            time.sleep(0.1)
        family = set(descendants(process.pid))
    assert {row["id"] for row in archived(home, "id")} == {event.id for event in (*first, *second)}
    return family


@pytest.mark.fault("SCALE")
@AT_FULL_SIZE
def test_a_standalone_cluster_fills_the_table_and_nothing_is_left_behind(log: LogSettings, home: Path, tmp_path: Path) -> None:
    with a_cluster(tmp_path) as address:
        drains(home, log=log, master=address)

        executors = (tmp_path / "worker.log").read_text()
        assert re.search(r"Asked to launch executor app-\d+-0000/0 for hooklake", executors)


@pytest.mark.fault("SCALE")
@AT_FULL_SIZE
def test_executors_in_processes_of_their_own_fill_the_table(log: LogSettings, home: Path) -> None:
    family = drains(home, log=log, master="local-cluster[2,1,1024]")

    assert not [pid for pid in family if is_alive(pid)]
