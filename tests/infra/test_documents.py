"""The manual page says what the code does: commands, exit codes, metrics, settings and files are compared."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from infra.running import cli
from infra.settings import LogSettings, TelemetrySettings
from infra.telemetry import Telemetry

PAGE = Path(__file__).parents[2] / "infra" / "README.md"


def rows(*, heading: str, first: str) -> list[str]:
    """The rows of the table with this first column, in this section."""
    section = PAGE.read_text().split(f"## {heading}\n", 1)[1].split("\n## ", 1)[0]
    table = section.split(f"| {first} |", 1)[1].split("\n\n", 1)[0]
    return table.splitlines()[2:]


def setting_rows() -> Iterator[str]:
    for section, model in (("log", LogSettings), ("telemetry", TelemetrySettings)):
        for name, field in model.model_fields.items():
            yield f"| `{section}.{name}` | `{field.default}` | {field.description} |"


def test_the_page_has_every_verb_and_no_other() -> None:
    assert rows(heading="Commands", first="verb") == [f"| `{verb.name}` | `{verb.module}` | {verb.help} |" for verb in cli.VERBS]


def test_the_page_has_every_exit_code() -> None:
    codes = [int(re.findall(r"`(\d)`", row)[0]) for row in rows(heading="Commands", first="exit code")]

    assert codes == [0, cli.EXIT_FAILED, cli.EXIT_CONFIG, cli.EXIT_UNAVAILABLE]


def test_the_page_has_every_metric_and_no_other(home: Path) -> None:
    telemetry = Telemetry.start("test", TelemetrySettings(), home=home)
    for counter in (telemetry.produced, telemetry.consumed, telemetry.failed, telemetry.loop_failures):
        counter.add(1)
    telemetry.lag.set(1)
    telemetry.duration.record(1)
    page = telemetry.metrics_page().decode()
    telemetry.shutdown()

    kinds = dict(re.findall(r"^# TYPE (\S+) (\S+)$", page, flags=re.M))
    helps = dict(re.findall(r"^# HELP (\S+) (.+)$", page, flags=re.M))
    assert set(rows(heading="Ops ports", first="metric")) == {f"| `{name}` | {kind} | {helps[name]} |" for name, kind in kinds.items()}


def test_the_page_has_every_setting_with_its_default_and_no_other() -> None:
    assert rows(heading="Settings", first="setting") == list(setting_rows())


def test_the_page_names_every_module() -> None:
    named = PAGE.read_text().split("## Files", 1)[1]

    modules = [*PAGE.parent.glob("*.py"), *(PAGE.parent / "running").glob("*.py")]
    names = {path.relative_to(PAGE.parent).as_posix() for path in modules if path.name != "__init__.py"}
    assert {name for name in names if f"`{name}`" not in named} == set()
