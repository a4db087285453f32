from __future__ import annotations

import ast
import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from infra.running import provision
from infra.settings import environment_with
from tests.infra.running.processes import ROOT

LOCK = (
    "aaa==1 \\\n    --hash=sha256:00\nsetuptools==84 \\\n    --hash=sha256:11 \\\n    --hash=sha256:22\nzzz==2 \\\n    --hash=sha256:33\n"
)


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """A tree that set-up recognises, with an environment that is complete."""
    root = tmp_path / "clone"
    (root / "infra" / "running").mkdir(parents=True)
    shutil.copy(ROOT / "infra" / "running" / "provision.py", root / "infra" / "running")
    (root / "requirements.lock").write_text(LOCK)
    (root / "pyproject.toml").write_text("[project]\n")
    (root / ".venv").mkdir()
    provision.write_stamp(root / ".venv", provision.wanted_stamp(root))
    return root


def run(clone: Path, *arguments: str, path: Path | None = None) -> subprocess.CompletedProcess[str]:
    script = clone / "infra" / "running" / "provision.py"
    environment = environment_with({"PATH": str(path)} if path is not None else {})
    command = [sys.executable, "-I", str(script), *arguments]
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60, check=False)


def test_it_needs_the_standard_library_only() -> None:
    tree = ast.parse((ROOT / "infra" / "running" / "provision.py").read_text())
    imported = {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
    imported |= {node.module or "" for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}

    assert imported <= set(sys.stdlib_module_names)


def test_doing_it_again_does_nothing_and_says_nothing(clone: Path) -> None:
    """There is no Python in this environment: whatever were tried with it would fail."""
    done = run(clone)

    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_an_option_that_it_does_not_know_is_said_before_anything_is_done(clone: Path) -> None:
    (clone / "requirements.lock").unlink()

    done = run(clone, "--for-everybody")

    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.splitlines()[-1] == "provision.py: error: unrecognized arguments: --for-everybody"


@pytest.mark.parametrize("option", provision.PROGRAMS)
def test_what_only_these_need_and_cannot_be_installed_is_a_sentence_each_and_no_failure(clone: Path, tmp_path: Path, option: str) -> None:
    done = run(clone, option, path=tmp_path)  # without apt-get

    user, programs = provision.PROGRAMS[option]
    assert (done.returncode, done.stderr) == (0, "")
    for sentence, (package, program) in zip(done.stdout.splitlines(), programs.items(), strict=True):
        assert sentence.startswith(f"set-up: the Debian package {package} cannot be installed here, so the {user} do without {program}: ")


@pytest.mark.parametrize("option", provision.PROGRAMS)
def test_what_only_these_need_is_not_installed_again(clone: Path, tmp_path: Path, option: str) -> None:
    for program in provision.PROGRAMS[option][1].values():
        (tmp_path / program).symlink_to(sys.executable)

    done = run(clone, option, path=tmp_path)

    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


@pytest.mark.parametrize(
    ("target", "option"),
    [("test", "--for-tests"), ("faults", "--for-tests"), ("bench", "--for-benchmarks"), ("up", None), ("setup", None)],
)
def test_nobody_installs_what_only_others_need(target: str, option: str | None) -> None:
    done = subprocess.run(["make", "-n", target], cwd=ROOT, capture_output=True, text=True, check=True)

    assert "infra/running/provision.py" in done.stdout
    assert [one for one in provision.PROGRAMS if one in done.stdout] == ([option] if option else [])


@pytest.mark.parametrize("changed", ["lock", "project", "root", "python", "java", "jars", "classes"])
def test_whatever_the_environment_was_made_from_counts(clone: Path, changed: str) -> None:
    wanted = provision.wanted_stamp(clone)
    provision.write_stamp(clone / ".venv", {**wanted, changed: "other"})

    assert provision.read_stamp(clone / ".venv") != wanted


def test_a_changed_lock_changes_what_is_wanted(clone: Path) -> None:
    before = provision.wanted_stamp(clone)
    (clone / "requirements.lock").write_text(LOCK + "# changed\n")

    assert provision.wanted_stamp(clone)["lock"] != before["lock"]


@pytest.mark.parametrize("content", ["", "no json", "[]", "null"])
def test_a_stamp_that_cannot_be_read_counts_as_none(clone: Path, content: str) -> None:
    (clone / ".venv" / provision.STAMP).write_text(content)

    assert provision.read_stamp(clone / ".venv") == {}


def test_one_package_is_taken_from_the_lock_with_all_its_hashes() -> None:
    assert provision.entry_of("setuptools", lock=LOCK) == "setuptools==84 \\\n    --hash=sha256:11 \\\n    --hash=sha256:22\n"


def test_a_lock_without_the_builder_is_one_sentence() -> None:
    with pytest.raises(SystemExit, match="has no setuptools"):
        provision.entry_of("setuptools", lock="aaa==1\n")


def test_a_half_made_environment_is_not_usable(tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    assert not provision.is_usable(tmp_path)

    (tmp_path / "bin" / "python").symlink_to("/nowhere/python")
    assert not provision.is_usable(tmp_path)


def test_the_lock_of_this_tree_has_the_builder() -> None:
    lock = (ROOT / "requirements.lock").read_text()

    assert provision.entry_of("setuptools", lock=lock).startswith("setuptools==")


def test_the_stamp_is_written_whole(tmp_path: Path) -> None:
    provision.write_stamp(tmp_path, {"lock": "x"})

    assert json.loads((tmp_path / provision.STAMP).read_text()) == {"lock": "x"}
    assert [path.name for path in tmp_path.iterdir()] == [provision.STAMP]


def test_ci_calls_exactly_make_test() -> None:
    script = ROOT / ".ci" / "run"

    assert script.read_text().splitlines()[-1] == "exec make test"
    assert script.stat().st_mode & 0o111
