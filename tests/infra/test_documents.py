"""The manual page says what the code does: commands, exit codes, metrics, settings and files are compared."""

from __future__ import annotations

import re
from pathlib import Path

from infra.running import cli
from infra.settings import LogSettings, TelemetrySettings
from infra.streams.probe import DEFECT, MENDED
from infra.telemetry import Telemetry
from tests.documents import ROOT, setting_rows, table_rows, unnamed_modules

PAGE = ROOT / "infra" / "README.md"


def test_the_page_has_every_verb_and_no_other() -> None:
    assert table_rows(PAGE, heading="Commands", first="verb") == [
        f"| `{verb.name}` | `{verb.module}` | {verb.help} |" for verb in cli.VERBS
    ]


def test_the_page_has_every_exit_code() -> None:
    codes = [int(re.findall(r"`(\d)`", row)[0]) for row in table_rows(PAGE, heading="Commands", first="exit code")]

    assert codes == [0, cli.EXIT_FAILED, cli.EXIT_CONFIG, cli.EXIT_UNAVAILABLE]


def test_the_page_has_every_metric_and_no_other(home: Path) -> None:
    telemetry = Telemetry.start("test", TelemetrySettings(), home=home)
    for counter in (
        telemetry.produced,
        telemetry.spooled,
        telemetry.refused,
        telemetry.quarantined,
        telemetry.unkept,
        telemetry.flagged,
        telemetry.spool_damages,
        telemetry.consumed,
        telemetry.failed,
        telemetry.loop_failures,
    ):
        counter.add(1, {})
    for gauge in (telemetry.lag, telemetry.spool_bytes, telemetry.spool_age):
        gauge.set(1)
    telemetry.duration.record(1)
    page = telemetry.metrics_page().decode()
    telemetry.shutdown()

    kinds = dict(re.findall(r"^# TYPE (\S+) (\S+)$", page, flags=re.M))
    helps = dict(re.findall(r"^# HELP (\S+) (.+)$", page, flags=re.M))
    assert set(table_rows(PAGE, heading="Ops ports", first="metric")) == {
        f"| `{name}` | {kind} | {helps[name]} |" for name, kind in kinds.items()
    }


def test_the_page_has_every_setting_with_its_default_and_no_other() -> None:
    assert table_rows(PAGE, heading="Settings", first="setting") == setting_rows({"log": LogSettings, "telemetry": TelemetrySettings})


def test_the_page_names_every_module() -> None:
    assert unnamed_modules(PAGE, folders=(".", "running", "streams")) == set()


def test_the_page_names_every_script() -> None:
    scripts = {path.name for path in (PAGE.parent / "streams" / "lua").glob("*.lua")}

    rows = " ".join(table_rows(PAGE, heading="The log", first="script"))
    assert set(re.findall(r"`(\w+\.lua)`", rows)) == scripts


def test_the_page_has_every_kind_of_key() -> None:
    heads = re.findall(r"^    (\{n\}:\S+?),? ", (PAGE.parent / "streams" / "keys.py").read_text(), flags=re.M)

    rows = " ".join(table_rows(PAGE, heading="The log", first="key")).replace("\\|", "|")
    assert heads
    assert [head for head in heads if f"`{head}`" not in rows] == []


def test_the_page_has_every_version_from_which_the_log_server_is_mended() -> None:
    section = PAGE.read_text().split("## The log\n", 1)[1].split("\n## ", 1)[0]

    versions = [".".join(map(str, version)) for of_server in MENDED.values() for version in of_server]
    assert re.findall(r"\b\d+\.\d+\.\d+\b", section.partition("mended from")[2].partition("\n\n")[0]) == versions
    assert DEFECT in section
