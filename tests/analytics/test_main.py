from __future__ import annotations

import getpass
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from analytics.__main__ import rest_s
from analytics.requests import Requests
from infra.settings import FILE_NAME, LogSettings, environment_with
from tests.analytics.conftest import append
from tests.events import an_event
from tests.lake import archived

ROOT = Path(__file__).parent.parent.parent
PATIENCE_S = 150
ARCHIVE = {"ops_port": 0, "connect_port": 0, "interval_ms": 100, "warm_up": False}


@pytest.fixture
def start(log: LogSettings, home: Path) -> Iterator[Callable[[], subprocess.Popen[bytes]]]:
    """Starts `python -m analytics`; what it says is appended to <home>/archive.log."""
    settings = {"log": {"url": log.url, "prefix": log.prefix}, "archive": ARCHIVE}
    (home / FILE_NAME).write_text(yaml.safe_dump(settings))
    started: list[subprocess.Popen[bytes]] = []

    def start_one() -> subprocess.Popen[bytes]:
        with (home / "archive.log").open("ab") as output:
            environment = environment_with({"HOOKLAKE_HOME": str(home)})
            started.append(subprocess.Popen([sys.executable, "-m", "analytics"], cwd=ROOT, env=environment, stderr=output))
        return started[-1]

    yield start_one
    for process in started:
        process.kill()
        process.wait()


def wait_for(home: Path, text: str, *, times: int = 1) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while (home / "archive.log").read_text().count(text) < times:
        assert time.monotonic() < deadline, (home / "archive.log").read_text()
        time.sleep(0.1)


def wait_for_rows(home: Path, rows: int) -> None:
    """In one batch or in several."""
    deadline = time.monotonic() + PATIENCE_S
    while sum(map(int, re.findall(r'"rows": (\d+), "duplicates"', text := (home / "archive.log").read_text()))) < rows:
        assert time.monotonic() < deadline, text
        time.sleep(0.1)


def jvm_of(process: subprocess.Popen[bytes]) -> int:
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
    return next(int(child) for child in children if "java" in Path(f"/proc/{child}/cmdline").read_text())


def test_an_archive_lives_alone_ends_with_its_jvm_and_the_next_one_continues_until_told_to_end(
    start: Callable[[], subprocess.Popen[bytes]], log: LogSettings, home: Path
) -> None:
    # One test, since each start of a Spark costs more than all the rest of it.
    first = start()
    wait_for(home, "archive ready")
    append(log, home, an_event(), an_event())
    wait_for_rows(home, 2)
    jvm = jvm_of(first)
    assert f"-Djava.io.tmpdir={home}/run/spark-archive/tmp" in Path(f"/proc/{jvm}/cmdline").read_text()
    assert not Path(f"/tmp/hsperfdata_{getpass.getuser()}/{jvm}").exists()

    # The one that runs does what it is asked for; nobody else may write.
    assert next(table["table"] for table in command(home, "upkeep", "--dry-run")["tables"]) == "events"

    second = start()
    assert second.wait(PATIENCE_S) == 1
    wait_for(home, f"belongs to a running archive (pid {first.pid})")

    os.kill(jvm, signal.SIGKILL)
    assert first.wait(30) == 1

    append(log, home, an_event())
    next_one = start()
    wait_for(home, '"rows": 3, "event": "archive ready"')
    jvm = jvm_of(next_one)
    next_one.send_signal(signal.SIGTERM)
    assert next_one.wait(PATIENCE_S) == 0
    assert not Path(f"/proc/{jvm}").exists()

    # Where none runs, a command does it with a Spark of its own, and ends with it.
    append(log, home, an_event(tenant_id="another"))
    assert command(home, "erase", "--tenant", "demo", "--yes")["tables"]["events"] == 3
    assert [row["tenant_id"] for row in archived(home, "tenant_id")] == ["another"]
    assert Requests(home).waiting() == []


def test_an_archive_that_is_told_to_end_while_it_makes_its_table_ends_as_told(
    start: Callable[[], subprocess.Popen[bytes]], home: Path
) -> None:
    """The signal then breaks off a call to Spark's JVM, and with it the connection that would tell it to stop."""
    process, deadline = start(), time.monotonic() + PATIENCE_S
    while not (home / "lake" / "events").exists():
        assert time.monotonic() < deadline, (home / "archive.log").read_text()
        time.sleep(0.01)
    jvm = jvm_of(process)

    process.send_signal(signal.SIGTERM)

    assert process.wait(PATIENCE_S) == 0, (home / "archive.log").read_text()
    assert "Traceback" not in (home / "archive.log").read_text()
    assert not Path(f"/proc/{jvm}").exists()


def command(home: Path, verb: str, *arguments: str) -> dict[str, Any]:
    """What `hooklake VERB ... --json` prints."""
    run = [sys.executable, "-m", f"analytics.{verb}", *arguments, "--json"]
    environment = environment_with({"HOOKLAKE_HOME": str(home)})
    done = subprocess.run(run, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=PATIENCE_S, check=False)
    assert done.returncode == 0, done.stderr
    printed: dict[str, Any] = json.loads(done.stdout)
    return printed


def test_without_java_the_archive_says_what_to_install(home: Path) -> None:
    (home / FILE_NAME).touch()
    hidden = "from analytics import java; java.candidates = lambda: iter(()); from analytics.__main__ import *; run(app)"
    environment = environment_with({"HOOKLAKE_HOME": str(home), "HOOKLAKE_ARCHIVE__OPS_PORT": "0"})

    done = subprocess.run(
        [sys.executable, "-c", hidden], cwd=ROOT, env=environment, capture_output=True, text=True, timeout=60, check=False
    )

    assert done.returncode == 2
    assert "install openjdk-17-jre-headless" in done.stderr


def test_a_round_that_took_long_is_followed_by_the_next_after_a_breath() -> None:
    assert rest_s(1000, took_s=0.25) == 0.75
    assert rest_s(1000, took_s=3.0) == 0.25
    assert rest_s(0, took_s=3.0) == 0.0
