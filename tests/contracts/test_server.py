"""Each server is what it declares to be."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest
import redis

from infra.running.doctor import examine_log
from infra.running.initialise import initialise
from infra.settings import LogSettings, TelemetrySettings, environment_with, load_settings
from infra.streams.probe import refuse_unfit
from infra.streams.stream import EventStream
from infra.telemetry import Telemetry
from ingest.watch import LogWatch
from tests.contracts.servers import Features, ServerKind, header_lines, server_kinds
from tests.documents import ROOT
from tests.infra.streams.raw import open_raw

HAS: dict[str, Callable[[Any], bool]] = {
    "streams": lambda client: bool(client.xadd("{0}s", {"a": "b"})),
    "scripts": lambda client: bool(client.eval("return 1", 0) == 1),
    "fsync": lambda client: bool(client.config_get("appendfsync")["appendfsync"] == "always"),
    "memory_cap": lambda client: bool(client.config_set("maxmemory", 0)),
    "replicas": lambda client: may_be_a_replica(client),
    "one_keyspace": lambda client: client.info("cluster")["cluster_enabled"] == 0,
}


def may_be_a_replica(client: Any) -> bool:
    try:
        return bool(client.replicaof("NO", "ONE"))
    except redis.ResponseError:
        return False


def test_every_feature_can_be_looked_for() -> None:
    assert list(HAS) == [field.name for field in fields(Features)]


def test_a_server_has_exactly_the_features_that_it_declares(own_log: LogSettings, home: Path, server_kind: ServerKind) -> None:
    client = open_raw(own_log, home=home)

    found = [name for name, has in HAS.items() if has(client)]

    client.close()
    assert found == server_kind.features.names()


def test_a_server_is_fit_to_hold_events(log: LogSettings, home: Path, server_kind: ServerKind) -> None:
    client = open_raw(log, home=home)

    facts = refuse_unfit(client, log=log)

    client.close()
    assert facts.version == server_kind.version()


def test_the_printout_names_each_server_and_what_it_declares() -> None:
    first, second, third = header_lines(server_kinds())

    assert first.startswith("contracts 1/3 embedded Valkey ")
    assert first.endswith(": streams, scripts, fsync, memory_cap, replicas, one_keyspace")
    assert second.startswith("contracts 2/3 Debian's Redis")
    assert third.startswith("contracts 3/3 cluster of three embedded Valkeys ")
    assert third.endswith(": streams, scripts, fsync, memory_cap")


def test_the_printout_says_when_a_server_is_missing() -> None:
    absent = ServerKind("Debian's Redis", Features(), server_kinds()[0].server, program="")

    assert header_lines([absent]) == ["contracts 1/1 Debian's Redis: missing here, so no contract is held against it"]


@pytest.mark.parametrize(("ci", "outcome"), [("true", "1 error"), ("", "1 skipped")])
def test_a_missing_server_fails_in_ci_and_is_skipped_elsewhere(ci: str, outcome: str, tmp_path: Path) -> None:
    """In a pytest of its own, whose path leads to no Redis."""
    contract = "tests/contracts/test_server.py::test_a_server_is_fit_to_hold_events[Debian's Redis]"
    command = [sys.executable, "-m", "pytest", "-n", "0", "-p", "no:cacheprovider", contract]

    done = subprocess.run(
        command, cwd=ROOT, env=environment_with({"CI": ci, "PATH": str(tmp_path)}), capture_output=True, text=True, timeout=120, check=False
    )

    assert "contracts 2/3 Debian's Redis: missing here" in done.stdout
    assert f"{outcome} in " in done.stdout


def test_a_server_that_says_an_old_version_is_warned_about_once_and_by_doctor(
    log: LogSettings, home: Path, server_kind: ServerKind, capsys: pytest.CaptureFixture[str]
) -> None:
    """Debian mends what it ships without another version; who asks the server cannot tell."""
    initialise(home)
    file = home / "hooklake.yaml"
    file.write_text(file.read_text().replace("url: embedded ", f"url: {log.url} "))
    telemetry = Telemetry.start("test", TelemetrySettings(), home=home)
    stream = EventStream.open(log, home=home)

    LogWatch(log, home=home, stream=stream, telemetry=telemetry).look()
    telemetry.shutdown()
    warned = [line for line in capsys.readouterr().err.splitlines() if "CVE-2025-49844" in line]
    findings = [finding for finding in examine_log(load_settings(home)) if finding.check == "log version"]

    is_old = server_kind.version().startswith("7.0.")
    assert len(warned) == len(findings) == (1 if is_old else 0)
    assert {finding.state for finding in findings} <= {"warn"}
