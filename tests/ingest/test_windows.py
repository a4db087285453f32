"""How long the delivery ids of a source are remembered."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from infra.settings import load_settings
from infra.streams.seen import HOUR_MS, SeenWindow
from infra.streams.stream import Windows
from ingest.windows import windows_of
from schemas.errors import ConfigError


def windows(home: Path, *sources: dict[str, Any], log: dict[str, Any] | None = None) -> Windows:
    described = {f"hook-{number}": {"scheme": "github", "secrets": ["file:x"], **source} for number, source in enumerate(sources)}
    (home / "hooklake.yaml").write_text(yaml.safe_dump({"log": log or {}, "tenants": {"demo": {"sources": described}}}))
    return windows_of(load_settings(home))


def test_a_source_has_its_own_window_or_that_of_the_log(home: Path) -> None:
    assert windows(home, {"window": "24h"}, {}) == {("demo", "hook-0"): SeenWindow(24 * HOUR_MS, name="24h")}


def test_a_window_as_long_as_the_logs_is_the_logs(home: Path) -> None:
    assert windows(home, {"window": "80h"}) == {}


def test_a_window_may_be_as_long_as_the_log_remembers_and_no_longer(home: Path) -> None:
    assert windows(home, {"window": "168h"}, {"window": "80h"}, log={"window": "168h"}) == {
        ("demo", "hook-1"): SeenWindow(80 * HOUR_MS, name="80h")
    }

    with pytest.raises(ConfigError, match=r"tenants.demo.sources.hook-0.window=81h is longer than log.window=80h"):
        windows(home, {"window": "81h"})


@pytest.mark.parametrize("window", ["0h", "24", "1d", "-1h", "1.5h"])
def test_a_window_is_written_in_hours(home: Path, window: str) -> None:
    with pytest.raises(ConfigError, match="window"):
        windows(home, {"window": window})
