"""Fixtures that start real servers: one log server and one Spark per test run, one key prefix and one home per test."""

from __future__ import annotations

import itertools
import os
import shutil
import tempfile
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import hypothesis
import pytest
from xdist.scheduler import LoadScopeScheduling

from infra.running.embedded import EmbeddedServer
from infra.settings import LogSettings, set_environment
from tests.contracts.servers import header_lines, server_kinds
from tests.ports import free_port

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_numbers = itertools.count()


# Who starts a Spark: at most two run at once, each in the hands of one process of the run, which begins with it. The one that starts
# installations, each with a Spark that ends with it, then has one of its own for half of the tests that share one.
REFUSED_BEFORE_SPARK = "tests/end_to_end/test_settings_errors.py"
INSTALLATIONS = ("tests/analytics/test_main.py", "tests/analytics/test_cluster.py", "tests/end_to_end/", "tests/test_containers.py")
WITH_OTHER_SPARK = (
    "tests/analytics/test_gold",
    "tests/faults/test_archive_",
    "tests/faults/test_replay_steps.py",
    "tests/faults/test_gold_steps.py",
)
WITH_SPARK = "tests/analytics/"


class TwoHaveSpark(LoadScopeScheduling):  # type: ignore[misc]  # xdist has no types
    """Hands out tests one by one, but to one process half of those that share a Spark, and to another the other half, after those that
    start installations with one.

    By path, because xdist's own groups (`--dist loadgroup`) are told by node ids that pytest no longer lets it rewrite.
    """

    def _split_scope(self, nodeid: str) -> str:
        if nodeid.startswith(REFUSED_BEFORE_SPARK):
            return nodeid
        if nodeid.startswith((*INSTALLATIONS, *WITH_OTHER_SPARK)):
            return "installations"
        return "spark" if nodeid.startswith(WITH_SPARK) else nodeid


# An archive is compiled for months of work, which costs a test more than the work itself. Spark hands these to every JVM that it starts.
SHORT_LIVED_JVM = "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=240m -XX:+UseSerialGC"

# Likewise a plan: for a handful of rows Spark would spend its time on writing, compiling and revising programs that run once.
FEW_ROWS = {
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.adaptive.enabled": "false",
}


# Hundreds of servers sync every write, which takes as long as all their work. What a power cut leaves is looked at in file systems of
# the tests' own, and at full size everything lies on a disk.
MEMORY, ROOM_BYTES = Path("/dev/shm"), 8 * 1024**3


def pytest_configure(config: pytest.Config) -> None:
    # An example has 200 ms otherwise, which a busy machine needs for itself now and then; what hangs is found by pytest's own timeout.
    hypothesis.settings.register_profile("hooklake", deadline=None)
    hypothesis.settings.load_profile("hooklake")
    if config.getoption("--full-size"):
        return
    set_environment({"SPARK_SUBMIT_OPTS": SHORT_LIVED_JVM, "SPARK_LAUNCHER_OPTS": SHORT_LIVED_JVM})
    is_first = not hasattr(config, "workerinput")
    if is_first and config.option.basetemp is None and MEMORY.is_mount() and shutil.disk_usage(MEMORY).free >= ROOM_BYTES:
        config.option.basetemp = tempfile.mkdtemp(prefix="hooklake-tests-", dir=MEMORY)
        config.add_cleanup(partial(shutil.rmtree, config.option.basetemp, ignore_errors=True))


def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> TwoHaveSpark:
    return TwoHaveSpark(config, log)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--full-size", action="store_true", help="Run fault tests as long and as large as `make faults` does.")
    parser.addoption("--seed", type=int, default=1, help="What fault tests choose by.")


@pytest.fixture
def times(pytestconfig: pytest.Config) -> int:
    """How much larger or more often than at its smallest a fault test does its thing."""
    return 5 if pytestconfig.getoption("--full-size") else 1


@pytest.fixture(scope="session")
def log_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedServer]:
    """The server that most tests share; a test that kills or fills its server starts its own."""
    server = EmbeddedServer(tmp_path_factory.mktemp("log"), free_port(), password="a-test-password")
    server.start()
    yield server
    server.stop()


@pytest.fixture
def log(log_server: EmbeddedServer) -> LogSettings:
    """A log of its own for each test: the same server, another prefix."""
    return LogSettings(url=log_server.url, prefix=f"t{os.getpid()}-{next(_numbers)}:")


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """For all tests that need no process of their own; whoever asks for it belongs to WITH_SPARK or WITH_OTHER_SPARK."""
    from analytics.session import quick_session, stop_session  # pyspark is for the process that has Spark
    from analytics.settings import ArchiveSettings

    # A path with a space: Spark takes its options as one text, which would fall apart there.
    session = quick_session(ArchiveSettings(spark=FEW_ROWS), home=tmp_path_factory.mktemp("a home"))
    yield session
    stop_session(session)


@pytest.fixture
def home(tmp_path: Path) -> Path:
    path = tmp_path / "home"
    path.mkdir(mode=0o700)
    return path


def pytest_report_header(config: pytest.Config) -> list[str]:
    """Which servers the contracts are held against, when they are among the tests of this run."""
    folder = Path(__file__).parent / "contracts"
    chosen = [Path(argument.partition("::")[0]).absolute() for argument in config.args]
    if not any(path.is_relative_to(folder) or folder.is_relative_to(path) for path in chosen):
        return []
    return header_lines(server_kinds())
