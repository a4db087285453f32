"""Fixtures of the contracts: every test of this folder runs once against each server."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from infra.running.embedded import EmbeddedServer
from tests.contracts.servers import ServerKind, may_be_missing, server_kinds
from tests.logs import archive_log as archive_log
from tests.logs import client as client
from tests.logs import keys as keys
from tests.logs import own_archive_log as own_archive_log
from tests.logs import own_client as own_client
from tests.logs import own_log as own_log
from tests.logs import own_pipeline as own_pipeline
from tests.logs import own_stream as own_stream
from tests.logs import pipeline as pipeline
from tests.logs import stream as stream


@pytest.fixture(scope="session", params=server_kinds(), ids=lambda kind: kind.name)
def server_kind(request: pytest.FixtureRequest) -> ServerKind:
    kind: ServerKind = request.param
    if not kind.program:
        (pytest.skip if may_be_missing() else pytest.fail)(f"{kind.name} is not installed here: `make test` installs it where it may")
    return kind


@pytest.fixture(scope="session")
def log_server(server_kind: ServerKind, tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedServer]:
    """The server that most contracts share."""
    server = server_kind.start(tmp_path_factory.mktemp("contracts"))
    yield server
    server.stop()


@pytest.fixture
def own_server(server_kind: ServerKind, tmp_path: Path) -> Iterator[EmbeddedServer]:
    """A server that the test may kill, stop, fill or flush."""
    server = server_kind.start(tmp_path / "own")
    yield server
    server.kill()
