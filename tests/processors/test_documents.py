"""The manual page says what the code does, and its example is a processor."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import yaml
from pydantic import BaseModel

from infra.sections import DeadLetterSettings
from infra.settings import environment_with, validate
from processors import testing
from processors.assignment import module_of
from processors.envelope import headers_of
from processors.registry import Registry, specs_in
from processors.settings import ForwardSettings, GroupSettings
from tests.documents import ROOT, setting_rows, table_rows, unnamed_modules
from tests.events import an_event
from tests.processors.test_envelope import TRACEPARENT, a_delivery

PAGE = ROOT / "processors" / "README.md"


def code_blocks() -> list[str]:
    return re.findall(r"```python\n(.*?)```", PAGE.read_text(), flags=re.S)


def test_the_page_has_every_setting_with_its_default_and_no_other() -> None:
    sections: dict[str, type[BaseModel]] = {
        "groups.<group>": GroupSettings,
        "groups.<group>.forward": ForwardSettings,
        "dead_letters": DeadLetterSettings,
    }

    assert table_rows(PAGE, heading="Settings", first="setting") == setting_rows(sections)


def test_the_page_names_every_module() -> None:
    assert unnamed_modules(PAGE, besides=("__main__.py", "settings.py")) == set()


def test_the_example_is_a_processor() -> None:
    module = ModuleType("an_example")
    exec(compile(code_blocks()[0], str(PAGE), "exec"), vars(module))

    spec = Registry(specs_in(module)).match("github.pull_request.opened")

    assert spec is not None
    assert spec.max_attempts == 4


def test_the_example_of_forwarding_is_one() -> None:
    (text,) = re.findall(r"```yaml\n(.*?)```", PAGE.read_text(), flags=re.S)
    options = validate(yaml.safe_load(text)["groups"]["crm"], GroupSettings, at="groups.crm")

    assert options.forward is not None
    assert module_of(options, group="crm", named="") == ""


def test_the_page_has_every_header_of_a_forwarded_event() -> None:
    headers = headers_of(an_event(traceparent=TRACEPARENT), delivery=a_delivery(replay=b"r1"), at_s=1, key=b"k")

    listed = re.findall(r"`([\w-]+)`", "".join(row.split("|")[1] for row in table_rows(PAGE, heading="Forward", first="header")))
    assert sorted(listed) == sorted(name for name, _ in headers)


def test_the_examples_of_testing_are_tests_that_pass_and_can_fail(tmp_path: Path) -> None:
    tests = [code for code in code_blocks() if "async def test_" in code]
    (example,) = (code for code in tests if "test_a_push_is_indexed" in code)
    (fixture,) = (code for code in code_blocks() if "@pytest.fixture" in code)
    shared = example.replace("processing(index)", "processing(index, on=log)").replace("again() ->", "again(log: object) ->")
    broken = shared.replace("raise Retry", "raise Reject").replace("import Delivery, Retry", "import Delivery, Reject")
    broken = broken.replace(", after_ms=60_000", "")
    others = {f"test_{number}": code for number, code in enumerate(tests)}
    for name, code in {"conftest": fixture, "test_shared": shared, "test_broken": broken, **others}.items():
        (tmp_path / f"{name}.py").write_text(code)

    options = ["-p", "no:cacheprovider", "-p", "no:xdist", "-o", "asyncio_mode=auto", "-o", "asyncio_default_fixture_loop_scope=function"]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-W", "error", *options, str(tmp_path)],
        cwd=tmp_path, env=environment_with({"PYTHONPATH": str(ROOT)}), capture_output=True, text=True, timeout=240,
    )  # fmt: skip

    assert f"1 failed, {len(tests) + 1} passed" in done.stdout, done.stdout + done.stderr
    assert "test_broken.py::test_a_push_is_indexed" in done.stdout


def test_the_page_has_everything_that_the_testing_kit_offers() -> None:
    listed = re.findall(r"`(?:lake\.)?(\w+)", "".join(row.split("|")[1] for row in table_rows(PAGE, heading="Test", first="what")))
    offered = [name for name in vars(testing.Lake) if not name.startswith("_") and name != "close"]

    assert sorted(listed) == sorted([*offered, "runs", "processing", "log_server"])
