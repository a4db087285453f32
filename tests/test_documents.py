"""The pages at the top of the tree say what is so: links lead somewhere, versions agree, examples run."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from types import ModuleType

import pytest

from processors.registry import Registry, specs_in
from schemas import errors
from tests.documents import ROOT

README = ROOT / "README.md"
PAGES = sorted(path for path in [*ROOT.glob("*.md"), *ROOT.glob("*/README.md")])
EIGHT_FILES = [
    "schemas/event.py",
    "ingest/receive.py",
    "ingest/signatures.py",
    "infra/streams/stream.py",
    "processors/worker.py",
    "processors/retry.py",
    "analytics/archive.py",
    "analytics/tables.py",
]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_every_link_and_named_file_exists(page: Path) -> None:
    text = page.read_text()
    links = [link for link in re.findall(r"\]\(([^)#]+)\)", text) if "://" not in link]
    paths = re.findall(r"`((?:schemas|infra|ingest|processors|analytics|tests)/[\w/.]+)`", text)

    assert [link for link in links if not (page.parent / link).exists()] == []
    assert [path for path in paths if not (ROOT / path).exists()] == []


def test_the_life_of_an_event_is_told_in_eight_files() -> None:
    assert re.findall(r"^\| \[`([\w/.]+)`\]", README.read_text(), flags=re.M) == EIGHT_FILES


def test_the_changelogs_top_version_is_the_packages() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]

    (top, *_) = re.findall(r"^## (\S+)", (ROOT / "CHANGELOG.md").read_text(), flags=re.M)
    assert top == project["version"]


def test_the_readmes_example_is_a_processor() -> None:
    code, _notebook = re.findall(r"```python\n(.*?)```", README.read_text(), flags=re.S)
    module = ModuleType("an_example")
    exec(compile(code, str(README), "exec"), vars(module))

    assert Registry(specs_in(module)).match("github.push") is not None


def test_the_readme_names_both_commands_and_the_makefile_has_them() -> None:
    targets = re.findall(r"^(\w+):", (ROOT / "Makefile").read_text(), flags=re.M)

    assert set(re.findall(r"^\$ make (\w+)", README.read_text(), flags=re.M)) == {"up", "test"} <= set(targets)


def test_every_error_is_on_the_schemas_page() -> None:
    listed = re.findall(r"^\| `(\w+)` \| `(\w+)` \|", (ROOT / "schemas" / "README.md").read_text(), flags=re.M)
    ours = [error for error in vars(errors).values() if isinstance(error, type) and issubclass(error, errors.HooklakeError)]

    assert listed == [(error.__name__, error.code) for error in ours if error is not errors.HooklakeError]


def test_no_page_or_module_names_a_machine_or_a_registry() -> None:
    forbidden = re.compile(r"/root/|/work/|pypi\.org|pythonhosted|maven\.org|maven2|deb\.debian")
    sources = [path for folder in ("schemas", "infra", "ingest", "processors", "analytics") for path in (ROOT / folder).rglob("*.*")]
    texts = [path for path in [*sources, *PAGES, ROOT / "requirements.lock", ROOT / "Makefile"] if path.suffix not in (".pyc",)]

    assert [path.name for path in texts if path.is_file() and forbidden.search(path.read_text(errors="replace"))] == []
