from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from infra.settings import TelemetrySettings
from infra.telemetry import Telemetry


@pytest.fixture
def telemetry(home: Path) -> Iterator[Telemetry]:
    started = Telemetry.start("test", TelemetrySettings(), home=home)
    yield started
    started.shutdown()
