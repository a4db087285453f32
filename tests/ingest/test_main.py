"""`python -m ingest` as a process: what keeps it from starting, and how it ends."""

from __future__ import annotations

import http.client
import json
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from infra.running.embedded import EmbeddedServer
from infra.running.sockets import listen
from infra.settings import LogSettings, environment_with
from tests.ingest.receivers import (
    PATH,
    PUSH,
    ROOT,
    SOURCES,
    RunningReceiver,
    post_push,
    signed_headers,
    start_receiver,
    wait_until,
    write_home,
)
from tests.ports import free_port


def run_to_its_end(home: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "ingest", *arguments],
        cwd=ROOT,
        env=environment_with({"HOOKLAKE_HOME": str(home)}),
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )


def is_listening(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), timeout=10).close()
    except ConnectionRefusedError:
        return False
    return True


@pytest.fixture
def running(home: Path, log: LogSettings) -> Iterator[RunningReceiver]:
    receiver = start_receiver(write_home(home, log=log))
    yield receiver
    receiver.stop()


def test_a_port_in_use_is_named_with_its_setting(home: Path, log: LogSettings) -> None:
    with listen("127.0.0.1", port=0, setting="test") as taken:
        port = taken.getsockname()[1]
        write_home(home, log=log, ingest={"port": port, "ops_port": 0})
        ended = run_to_its_end(home)

        assert ended.returncode == 2
        assert f"ingest.port={port}" in ended.stderr
        assert ended.stderr.count("\n") == 1


def test_an_ops_port_in_use_is_named_with_its_setting(home: Path, log: LogSettings) -> None:
    with listen("127.0.0.1", port=0, setting="test") as taken:
        write_home(home, log=log, ingest={"port": 0, "ops_port": taken.getsockname()[1]})
        ended = run_to_its_end(home)

    assert ended.returncode == 2
    assert "ingest.ops_port=" in ended.stderr


def test_a_source_without_secrets_keeps_the_receiver_from_starting(home: Path, log: LogSettings) -> None:
    write_home(home, log=log, tenants={"demo": {"sources": {"github": {**SOURCES["github"], "secrets": []}}}})

    ended = run_to_its_end(home)

    assert ended.returncode == 2
    assert "tenants.demo.sources.github.secrets is empty" in ended.stderr


def test_a_log_that_would_evict_events_keeps_the_receiver_from_starting(home: Path, tmp_path: Path) -> None:
    server = EmbeddedServer(tmp_path / "log", free_port(), password="a-test-password", options={"maxmemory-policy": "allkeys-lru"})
    server.start()
    try:
        ended = run_to_its_end(write_home(home, log=LogSettings(url=server.url)))
    finally:
        server.stop()

    assert ended.returncode == 2
    assert "maxmemory-policy is allkeys-lru" in ended.stderr


def test_a_descriptor_that_is_no_listening_socket_is_refused(home: Path, log: LogSettings) -> None:
    ended = run_to_its_end(write_home(home, log=log), "--fd", "99")

    assert ended.returncode == 2
    assert "--fd 99 is no socket" in ended.stderr


def test_sigterm_ends_it_with_0(running: RunningReceiver) -> None:
    assert post_push(running.port).status == 202

    assert running.stop() == 0
    assert running.said("receiver stopped")


def test_a_request_in_work_is_answered_before_it_ends(running: RunningReceiver) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", running.port, timeout=20)
    connection.putrequest("POST", PATH)
    for name, value in {**signed_headers(PUSH), "content-length": str(len(PUSH))}.items():
        connection.putheader(name, value)
    connection.endheaders(PUSH[:10])
    # An answer to another request shows that the receiver is past this one's headers.
    assert post_push(running.port).status == 202

    exit_codes: list[int] = []
    stopping = threading.Thread(target=lambda: exit_codes.append(running.stop()))
    stopping.start()
    wait_until(lambda: not is_listening(running.port), what="the receiver drains")
    connection.send(PUSH[10:])
    response = connection.getresponse()
    body = response.read()
    connection.close()
    stopping.join(timeout=20)

    assert (response.status, response.headers["connection"]) == (202, "close"), body
    assert exit_codes == [0]


def test_an_inherited_socket_outlives_its_receivers(home: Path, log: LogSettings) -> None:
    write_home(home, log=log)
    with listen("127.0.0.1", port=0, setting="test") as listener:
        port = listener.getsockname()[1]
        for _ in range(2):
            receiver = start_receiver(home, "--fd", str(listener.fileno()), pass_fds=(listener.fileno(),))
            assert receiver.port == port
            assert post_push(port).status == 202
            assert receiver.stop() == 0
        # Nobody serves now, and still nobody is refused: the connection waits in the queue of the open socket.
        waiting = socket.create_connection(("127.0.0.1", port), timeout=10)
        last = start_receiver(home, "--fd", str(listener.fileno()), pass_fds=(listener.fileno(),))
        waiting.sendall(b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")
        answered = waiting.recv(65536)
        waiting.close()
        last.stop()

    assert answered.startswith(b"HTTP/1.1 200")


def test_an_exporter_that_cannot_be_reached_fails_no_request(home: Path, log: LogSettings) -> None:
    receiver = start_receiver(write_home(home, log=log, telemetry={"traces": "http://127.0.0.1:1/v1/traces"}))
    try:
        assert [post_push(receiver.port).status for _ in range(20)] == [202] * 20
    finally:
        assert receiver.stop() == 0


def test_the_append_is_traced_inside_its_request(home: Path, log: LogSettings) -> None:
    receiver = start_receiver(write_home(home, log=log, telemetry={"traces": "file:traces.jsonl"}))
    post_push(receiver.port)
    receiver.stop()

    spans = {span["name"]: span for span in map(json.loads, (home / "traces.jsonl").read_text().splitlines())}
    assert spans["log.append"]["trace_id"] == spans["ingest.receive"]["trace_id"]
    assert spans["log.append"]["parent_id"] == spans["ingest.receive"]["span_id"]


@pytest.mark.parametrize("port", ["99999", "-1"])
def test_a_port_option_that_is_no_port_is_refused(home: Path, log: LogSettings, port: str) -> None:
    ended = run_to_its_end(write_home(home, log=log), "--port", port)

    assert ended.returncode == 2
    assert "--port" in ended.stderr
    assert "Traceback" not in ended.stderr
