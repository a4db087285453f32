from __future__ import annotations

import http.client
import socket
from dataclasses import replace

import pytest

from infra.running.here import remarks_of
from infra.running.ops import OpsServer, listen_for_ops
from infra.running.services import Service
from infra.telemetry import Telemetry
from schemas.errors import ConfigError, StreamUnavailable


def get(port: int, path: str) -> tuple[int, str]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
    connection.request("GET", path)
    answer = connection.getresponse()
    status, body = answer.status, answer.read().decode()
    connection.close()
    return status, body


def test_metrics_health_and_readiness_are_served(telemetry: Telemetry) -> None:
    ready = [False]
    ops = OpsServer.bound(0, telemetry=telemetry, is_ready=lambda: ready[0], setting="ingest.ops_port")
    ops.start()
    telemetry.produced.add(3, {"tenant": "demo", "source": "github"})

    assert get(ops.port, "/healthz") == (200, "alive\n")
    assert get(ops.port, "/readyz") == (503, "not ready\n")
    ready[0] = True
    assert get(ops.port, "/readyz") == (200, "ready\n")
    assert "queue_messages_produced_total" in get(ops.port, "/metrics")[1]
    assert get(ops.port, "/other")[0] == 404
    ops.stop()
    ops.stop()


def test_a_readiness_that_cannot_be_told_is_not_ready(telemetry: Telemetry) -> None:
    def unknown() -> bool:
        raise StreamUnavailable("the log is away")

    ops = OpsServer.bound(0, telemetry=telemetry, is_ready=unknown, setting="ingest.ops_port")
    ops.start()

    assert get(ops.port, "/readyz")[0] == 503
    ops.stop()


def test_a_client_that_hangs_up_or_says_nothing_does_not_stop_the_others(telemetry: Telemetry, capsys: pytest.CaptureFixture[str]) -> None:
    ops = OpsServer.bound(0, telemetry=telemetry, is_ready=lambda: True, setting="ingest.ops_port")
    ops.start()

    with socket.create_connection(("127.0.0.1", ops.port)):
        for _ in range(5):
            with socket.create_connection(("127.0.0.1", ops.port)) as rude:
                rude.sendall(b"GET /metrics HTTP/1.0\r\n\r\n")
        assert get(ops.port, "/healthz")[0] == 200
    ops.stop()

    assert "Traceback" not in capsys.readouterr().err


def test_a_taken_port_names_the_setting(telemetry: Telemetry) -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]

        with pytest.raises(ConfigError, match=rf"archive\.ops_port={port} cannot be used on 127\.0\.0\.1 \(Address already in use\)"):
            OpsServer.bound(port, telemetry=telemetry, is_ready=lambda: True, setting="archive.ops_port")


def test_what_a_person_should_know_is_said_beside_readiness_and_asked_for_by_status(telemetry: Telemetry) -> None:
    listener = listen_for_ops("127.0.0.1", port=0, setting="ingest.ops_port")
    ops = OpsServer(listener, page=telemetry.metrics_page, is_ready=lambda: True, remark=lambda: "older settings are in use")
    ops.start()
    receiver = Service("receiver", "receiver", "ingest", (), ops.port, "ingest.ops_port")

    assert get(ops.port, "/readyz") == (200, "ready\nolder settings are in use\n")
    assert remarks_of([receiver]) == ["receiver: older settings are in use"]
    ops.stop()
    assert remarks_of([receiver, replace(receiver, ops_port=0)]) == []
