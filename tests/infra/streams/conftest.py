"""Fixtures of the log's tests: a stream, a connection and a raw client of one log."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from infra.running.embedded import EmbeddedServer
from tests.logs import archive_log as archive_log
from tests.logs import client as client
from tests.logs import keys as keys
from tests.logs import own_client as own_client
from tests.logs import own_log as own_log
from tests.logs import own_pipeline as own_pipeline
from tests.logs import own_stream as own_stream
from tests.logs import pipeline as pipeline
from tests.logs import stream as stream
from tests.ports import free_port


@pytest.fixture
def own_server(tmp_path: Path) -> Iterator[EmbeddedServer]:
    """A server that the test may kill, stop or fill."""
    server = EmbeddedServer(tmp_path / "own", free_port(), password="a-test-password")
    server.start()
    yield server
    server.kill()
