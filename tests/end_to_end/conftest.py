"""Whole installations, started as a user starts them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.end_to_end.installation import Installation


@pytest.fixture(scope="session")
def installation(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Installation]:
    """The one that tests share which break nothing; it writes its spans to a file."""
    with running(Installation(tmp_path_factory.mktemp("installation") / "home", TELEMETRY__TRACES="file:traces.jsonl")) as installed:
        yield installed


@pytest.fixture
def own_installation(tmp_path: Path) -> Iterator[Installation]:
    """For a test that kills."""
    with running(Installation(tmp_path / "home")) as installed:
        yield installed


@contextmanager
def running(installed: Installation) -> Iterator[Installation]:
    try:
        installed.start()
        yield installed
    finally:
        installed.stop()
