from __future__ import annotations

import json
import os
import socket
from pathlib import Path

from infra.running.doctor import Finding, examine, examine_spools
from infra.running.embedded import EmbeddedServer
from infra.running.initialise import initialise
from infra.segments import Segment
from infra.settings import load_settings
from infra.spools import Folder
from tests.infra.running.processes import run_module
from tests.ports import free_port


def found(home: Path, check: str) -> list[Finding]:
    return [finding for finding in examine(home) if finding.check == check]


def change(home: Path, old: str, new: str) -> None:
    file = home / "hooklake.yaml"
    assert old in file.read_text()
    file.write_text(file.read_text().replace(old, new))


def test_a_fresh_home_has_no_failure_and_everything_is_looked_at(home: Path) -> None:
    initialise(home)

    done = run_module("infra.running.doctor", "--json", home=home)

    findings = json.loads(done.stdout)
    assert done.returncode == 0
    assert {finding["state"] for finding in findings} <= {"ok", "warn"}
    checks = [finding["check"] for finding in findings]
    assert checks[:2] == ["settings", "home"]
    assert {"secrets", "log", "spool", "receiver", "worker-example", "archive", "java", "disk"} <= set(checks)
    assert all(finding["advice"] for finding in findings if finding["state"] != "ok")


def test_settings_that_do_not_load_are_the_only_finding(home: Path) -> None:
    done = run_module("infra.running.doctor", home=home)

    assert done.returncode == 1
    assert done.stdout.startswith(f"fail  settings  {home}/hooklake.yaml does not exist")
    assert len(done.stdout.splitlines()) == 1


def test_a_missing_and_a_readable_secret_are_failures(home: Path) -> None:
    initialise(home)
    (home / "secrets" / "demo-github").unlink()
    (home / "secrets" / "demo-generic").chmod(0o644)

    states = [(finding.state, finding.detail) for finding in found(home, "secrets")]

    assert [state for state, _ in states] == ["fail", "fail"]
    assert "tenants.demo.sources.github.secrets.0" in states[0][1]
    assert "mode 0644" in states[1][1]


def test_a_home_that_others_can_read_is_a_warning(home: Path) -> None:
    initialise(home)
    home.chmod(0o755)

    (finding,) = found(home, "home")

    assert finding.state == "warn"
    assert finding.advice == f"chmod 700 {home}"


def test_a_log_that_evicts_is_a_failure(home: Path, tmp_path: Path) -> None:
    server = EmbeddedServer(tmp_path / "log", free_port(), "a-test-password", options={"maxmemory-policy": "allkeys-lru"})
    server.start()
    initialise(home)
    change(home, "url: embedded ", f"url: {server.url} ")

    (finding,) = found(home, "log")
    server.stop()

    assert finding.state == "fail"
    assert "maxmemory-policy is allkeys-lru" in finding.detail


def test_a_fit_log_is_described(home: Path, log_server: EmbeddedServer) -> None:
    initialise(home)
    change(home, "url: embedded ", f"url: {log_server.url} ")

    (finding,) = found(home, "log")

    assert finding.state == "ok"
    assert "appendfsync always, noeviction" in finding.detail


def test_a_replicated_log_without_replicas_is_a_failure(home: Path, log_server: EmbeddedServer) -> None:
    initialise(home)
    change(home, "url: embedded ", f"url: {log_server.url} ")
    change(home, "durability: fsync ", "durability: replicated ")

    (finding,) = found(home, "replicas")

    assert finding.state == "fail"
    assert "has 0 of 1 connected replicas" in finding.detail


def test_a_log_that_is_away_is_a_failure_unless_it_is_the_embedded_one(home: Path) -> None:
    initialise(home)
    assert [finding.state for finding in found(home, "log")] == ["warn"]

    change(home, "url: embedded ", f"url: redis://127.0.0.1:{free_port()}/0 ")

    assert [finding.state for finding in found(home, "log")] == ["fail"]


def test_a_port_that_another_program_has_is_a_failure(home: Path) -> None:
    initialise(home)
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        change(home, "ops_port: 9103", f"ops_port: {port}")

        (finding,) = found(home, "archive")

    assert finding.state == "fail"
    assert finding.detail == f"archive.ops_port={port} is taken by another program"


def test_doctor_tells_where_spark_connect_listens_and_who_is_in_its_way(home: Path) -> None:
    initialise(home)
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        change(home, "connect_port: 15002", f"connect_port: {port}")

        (taken,) = found(home, "connect")
        (home / "run").mkdir()
        (home / "run" / "connect").write_text(f"sc://localhost:{port}/;token=secret\n")
        (listening,) = found(home, "connect")

    (left_behind,) = found(home, "connect")
    assert (taken.state, taken.detail) == ("fail", f"archive.connect_port={port} is taken by another program")
    assert (listening.state, "secret" in listening.detail) == ("ok", False)
    assert listening.detail.startswith(f"Spark Connect listens on 127.0.0.1:{port}")
    assert left_behind.detail == f"Spark Connect does not run; archive.connect_port={port} is free"


def test_events_that_wait_in_a_spool_are_told_with_the_reason(home: Path) -> None:
    folder = Folder(home / "spool" / "receiver-0")
    folder.path.mkdir(parents=True)
    segment = Segment.new(folder.path, number=1)
    segment.path.write_bytes(segment.frame(b"payload", events=3, at_ms=1))
    folder.keep_aside(segment, start=0, end=4)
    initialise(home)
    settings = load_settings(home)

    damaged, left = examine_spools(settings)
    held = folder.hold()
    _, waits = examine_spools(settings)

    assert held is not None
    os.close(held)
    assert (damaged.state, left.state, waits.state) == ("fail", "fail", "warn")
    assert left.detail.startswith("3 events (39 bytes) wait in the spool of receiver-0, and no receiver runs")
    assert waits.detail.endswith("its receiver runs, and the log does not take them all yet")
