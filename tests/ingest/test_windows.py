"""How long the delivery ids of a source are remembered."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from infra.settings import load_settings
from infra.streams.seen import HOUR_MS, SeenWindow
from infra.streams.stream import Windows
from ingest.scheme import Scheme
from ingest.schemes import SCHEMES
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


MAILGUN = {"scheme": "mailgun", "secrets": ["file:x"]}
STAMPED = {"scheme": "generic", "header": "X-Sign", "signed": "{timestamp}.{body}", "timestamp_header": "X-Time"}


@pytest.mark.parametrize(
    ("source", "log", "said"),
    [
        (
            {**MAILGUN, "tolerance_ms": 604_800_000, "window": "1h"},
            {},
            r"hook-0\.window=1h is shorter than twice .*hook-0\.tolerance_ms=604800000",
        ),
        ({**MAILGUN, "tolerance_ms": 604_800_000}, {}, r"log\.window=80h is shorter than twice .*hook-0\.tolerance_ms=604800000"),
        ({**MAILGUN, "tolerance_ms": 1_801_000, "window": "1h"}, {}, r"window=1h.*tolerance_ms=1801000.*captured.*new event"),
        ({**STAMPED, "delivery_id_header": "X-Id", "tolerance_ms": 3_600_000}, {"window": "1h"}, r"log\.window=1h.*tolerance_ms=3600000"),
    ],
)
def test_deliveries_are_remembered_for_as_long_as_their_signatures_count(
    home: Path, source: dict[str, Any], log: dict[str, Any], said: str
) -> None:
    with pytest.raises(ConfigError, match=said):
        windows(home, source, log=log)


@pytest.mark.parametrize(
    "source",
    [
        pytest.param({**MAILGUN, "tolerance_ms": 1_800_000, "window": "1h"}, id="twice as long"),
        pytest.param({**MAILGUN, "tolerance_ms": 30_000_000}, id="as the page advises for an outage of hours"),
        pytest.param({"window": "1h"}, id="no time is signed"),
        pytest.param({**MAILGUN, "tolerance_ms": 604_800_000, "unsigned": True, "secrets": []}, id="no time is looked at"),
        pytest.param({**STAMPED, "tolerance_ms": 604_800_000}, id="no delivery is ever remembered"),
    ],
)
def test_a_window_that_guards_nothing_or_long_enough_is_taken(home: Path, source: dict[str, Any]) -> None:
    windows(home, source)


@pytest.mark.parametrize("scheme", [scheme for scheme in SCHEMES.values() if scheme.timestamp], ids=lambda scheme: scheme.name)
def test_the_shortest_window_is_long_enough_for_every_schemes_own_tolerance(home: Path, scheme: Scheme) -> None:
    windows(home, {"scheme": scheme.name, "window": "1h"})


@pytest.mark.parametrize("window", ["0h", "24", "1d", "-1h", "1.5h"])
def test_a_window_is_written_in_hours(home: Path, window: str) -> None:
    with pytest.raises(ConfigError, match="window"):
        windows(home, {"window": window})
