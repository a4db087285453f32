from __future__ import annotations

import socket
from pathlib import Path

import pytest

from infra.running.embedded import EmbeddedServer
from infra.running.healthcheck import answers_ok, chosen
from infra.running.initialise import initialise
from infra.running.ops import OpsServer
from infra.running.services import services_of
from infra.settings import load_settings
from infra.telemetry import Telemetry
from schemas.errors import ConfigError
from tests.infra.running.processes import run_module
from tests.ports import free_port

MODULE = "infra.running.healthcheck"


def test_a_service_is_healthy_when_its_ops_port_says_ready(home: Path, telemetry: Telemetry) -> None:
    initialise(home)
    ready = [True]
    ops = OpsServer.bound(0, telemetry=telemetry, is_ready=lambda: ready[0], setting="ingest.ops_port")
    ops.start()
    port = str(ops.port)

    assert run_module(MODULE, "receiver", home=home, INGEST__OPS_PORT=port).returncode == 0
    ready[0] = False
    not_ready = run_module(MODULE, "receiver", home=home, INGEST__OPS_PORT=port)
    assert (not_ready.returncode, not_ready.stdout) == (1, "receiver is not ready\n")
    alive = run_module(MODULE, "receiver", "--alive", home=home, INGEST__OPS_PORT=port)
    assert (alive.returncode, alive.stdout) == (0, "receiver is alive\n")
    ops.stop()
    assert run_module(MODULE, "receiver", "--alive", home=home, INGEST__OPS_PORT=port).returncode == 1


def test_the_log_is_healthy_when_it_answers(home: Path, log_server: EmbeddedServer) -> None:
    initialise(home)

    assert run_module(MODULE, "log", home=home, LOG__URL=log_server.url).returncode == 0
    assert run_module(MODULE, "log", home=home, LOG__URL=f"redis://127.0.0.1:{free_port()}/0").returncode == 1


def test_without_a_name_everything_is_asked(home: Path, log_server: EmbeddedServer) -> None:
    initialise(home)

    done = run_module(MODULE, home=home, LOG__URL=log_server.url)

    assert done.stdout.splitlines() == ["log is ready", "receiver is not ready", "worker-example is not ready", "archive is not ready"]
    assert done.returncode == 1


def test_a_word_means_a_service_a_kind_or_an_error(home: Path) -> None:
    initialise(home)
    services = services_of(load_settings(home))

    assert [service.name for service in chosen(services, service="worker")] == ["worker-example"]
    assert [service.name for service in chosen(services, service="worker-example")] == ["worker-example"]
    assert chosen(services, service="log") == []
    with pytest.raises(ConfigError, match=r"there is no service 'consle' .* use one of log, receiver, worker-example, archive"):
        chosen(services, service="consle")


def test_a_port_that_accepts_and_says_nothing_is_not_healthy() -> None:
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()

        assert not answers_ok(silent.getsockname()[1])
