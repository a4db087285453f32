from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from infra.running.shadowing import PACKAGES, append_user_path, shadowed
from infra.settings import environment_with
from tests.infra.running.processes import ROOT


def test_our_own_packages_are_ours() -> None:
    assert shadowed() is None


def test_a_package_elsewhere_is_named(tmp_path: Path) -> None:
    sentence = shadowed(tmp_path)

    assert sentence is not None
    assert sentence.startswith(f"the package `schemas` is found at {ROOT}/schemas and not at {tmp_path}/schemas")


@pytest.mark.parametrize("package", [name for name in PACKAGES if name != "infra"])
def test_the_command_refuses_to_start_beside_a_foreign_package(package: str, tmp_path: Path) -> None:
    """As with PYTHONPATH=. in a project that has a `schemas/` of its own."""
    (tmp_path / package).mkdir()
    (tmp_path / package / "__init__.py").touch()
    environment = environment_with({"PYTHONPATH": f"{tmp_path}:{ROOT}", "PYTHONSAFEPATH": "1"})

    done = subprocess.run(
        [sys.executable, "-c", "from infra.running.cli import main; main()"], env=environment, capture_output=True, text=True, check=False
    )

    assert done.returncode == 2
    assert done.stderr.startswith(f"hooklake: the package `{package}` is found at {tmp_path}/{package}")
    assert done.stderr.count("\n") == 1


def test_a_users_path_comes_last_and_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", list(sys.path))

    append_user_path(tmp_path)
    append_user_path(tmp_path)

    assert sys.path[-1] == str(tmp_path)
    assert sys.path.count(str(tmp_path)) == 1
