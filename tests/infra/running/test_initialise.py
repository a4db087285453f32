from __future__ import annotations

import stat
import subprocess
import sys
from pathlib import Path

import pytest

from analytics.settings import ArchiveSettings
from infra.running.initialise import initialise
from infra.sections import DeadLetterSettings
from infra.settings import SettingsFile, environment_with, load_settings
from ingest.settings import IngestSettings
from ingest.sources import Sources
from processors.settings import GroupSettings
from schemas.errors import ConfigError
from tests.infra.running.processes import ROOT, run_module


def mode_of(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_what_it_writes_loads_in_every_service(tmp_path: Path) -> None:
    home = tmp_path / "new" / "home"

    initialise(home)

    settings = load_settings(home)
    assert settings.section("ingest", IngestSettings) == IngestSettings()
    assert settings.section("archive", ArchiveSettings) == ArchiveSettings()
    assert settings.section("dead_letters", DeadLetterSettings) == DeadLetterSettings()
    assert settings.named_sections("groups", GroupSettings) == {"example": GroupSettings(module="processors.example")}
    assert settings.telemetry.traces == "off"
    assert settings.log.url == "embedded"
    assert {(source.tenant, source.name) for source in Sources.from_settings(settings).by_route.values()} == {
        ("demo", "github"),
        ("demo", "generic"),
    }


def test_every_section_is_written_and_explained(home: Path) -> None:
    initialise(home)

    lines = (home / "hooklake.yaml").read_text().splitlines()
    for section in SettingsFile.model_fields:
        assert lines[lines.index(f"{section}:") - 1].startswith("# "), section


def test_only_the_owner_can_read_it(tmp_path: Path) -> None:
    home = tmp_path / "home"

    initialise(home)

    assert mode_of(home) == 0o700
    assert mode_of(home / "secrets") == 0o700
    assert {mode_of(path) for path in (home / "secrets").iterdir()} == {0o600}
    assert mode_of(home / "hooklake.yaml") == 0o600


def test_secrets_are_fresh_in_every_home(tmp_path: Path) -> None:
    initialise(tmp_path / "a")
    initialise(tmp_path / "b")

    secrets = {path.read_text() for path in tmp_path.glob("*/secrets/*")}
    assert len(secrets) == 4
    assert all(len(secret.strip()) == 64 for secret in secrets)


def test_nothing_that_exists_is_overwritten(home: Path) -> None:
    (home / "hooklake.yaml").write_text("log: {shards: 8}\n")
    (home / "secrets").mkdir()
    (home / "secrets" / "demo-github").write_text("the sender's secret")

    written = initialise(home)

    assert [path.name for path in written] == ["demo-generic"]
    assert (home / "hooklake.yaml").read_text() == "log: {shards: 8}\n"
    assert (home / "secrets" / "demo-github").read_text() == "the sender's secret"
    assert initialise(home) == []


def test_of_many_that_write_at_once_one_wins_whole(tmp_path: Path) -> None:
    script = "import pathlib, sys, infra.running.initialise as i; print(i.write_new(pathlib.Path(sys.argv[1]), sys.argv[2] * 999))"
    environment = environment_with({"PYTHONPATH": str(ROOT)})
    racers = [
        subprocess.Popen([sys.executable, "-c", script, str(tmp_path / "secret"), name], env=environment, stdout=subprocess.PIPE)
        for name in "abcd"
    ]

    wins = [racer.communicate(timeout=60)[0].strip() == b"True" for racer in racers]

    assert sum(wins) == 1
    assert (tmp_path / "secret").read_text() == "abcd"[wins.index(True)] * 999
    assert [path.name for path in tmp_path.iterdir()] == ["secret"]


def test_a_home_that_cannot_be_written_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "file").touch()

    with pytest.raises(ConfigError, match=r"HOOKLAKE_HOME: .* cannot be written"):
        initialise(tmp_path / "file" / "home")


def test_the_command_says_what_it_wrote(tmp_path: Path, home: Path) -> None:
    first = run_module("infra.running.initialise", "--home", str(tmp_path / "other"), home=home)
    second = run_module("infra.running.initialise", "--home", str(tmp_path / "other"), home=home)

    assert first.stdout.splitlines()[-1] == f"wrote {tmp_path}/other/hooklake.yaml"
    assert second.stdout == f"{tmp_path}/other/hooklake.yaml and its secrets exist already; nothing was changed\n"
    assert (first.returncode, second.returncode) == (0, 0)
